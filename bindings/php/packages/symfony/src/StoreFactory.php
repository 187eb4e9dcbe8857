<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony;

use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\StoreFactory as SymfonyStoreFactory;

/**
 * Makes stores of DSNs: lockshm://SEGMENT?wait=SECONDS here, all others by symfony/lock.
 *
 * SEGMENT may be left out ("lockshm://"): that of the setting lockshm.segment.  Without wait a blocking acquire waits
 * without a bound.
 */
final class StoreFactory
{
    /**
     * @param object|string $connection a DSN, a connection, or a store, which is returned as it is
     *
     * @throws InvalidArgumentException the DSN has an option that does not exist, or a wait that is no number
     */
    public static function createStore(object|string $connection): PersistingStoreInterface
    {
        if ($connection instanceof PersistingStoreInterface) {
            return $connection;
        }
        if (!\is_string($connection) || !str_starts_with($connection, 'lockshm:')) {
            return SymfonyStoreFactory::createStore($connection);
        }
        if (!preg_match('~^lockshm:(?://)?([^/?]*)/?(?:\?(.*))?$~', $connection, $dsn)) {
            throw new InvalidArgumentException("\"$connection\" is no DSN of a lockshm store: lockshm://SEGMENT?wait=SECONDS.");
        }
        parse_str($dsn[2] ?? '', $options);
        $wait = $options['wait'] ?? null;
        unset($options['wait']);
        if ($options) {
            $names = implode(', ', array_keys($options));
            throw new InvalidArgumentException("\"$connection\" has an option that does not exist: $names. There is wait, in seconds.");
        }
        if (null !== $wait && (!is_numeric($wait) || $wait < 0)) {
            throw new InvalidArgumentException("\"$connection\": wait is a number of seconds, 0 or more.");
        }

        return new LockshmStore('' === $dsn[1] ? null : $dsn[1], null === $wait ? null : (float) $wait);
    }
}
