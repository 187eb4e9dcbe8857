<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony;

use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\StoreFactory as SymfonyStoreFactory;

/**
 * Makes stores of DSNs: lockshm://SEGMENT?wait=SECONDS&global=1 here, all others by symfony/lock.
 *
 * SEGMENT may be left out ("lockshm://"): that of the setting lockshm.segment.  Without wait a blocking acquire waits
 * without a bound.  With global=1 the locks exclude other hosts, too; the segment was made with Redis.
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
        $global = $options['global'] ?? '0';
        unset($options['wait'], $options['global']);
        if ($options) {
            $names = implode(', ', array_keys($options));
            throw new InvalidArgumentException("\"$connection\" has an option that does not exist: $names. There are wait, in seconds, and global, 0 or 1.");
        }
        if (null !== $wait && (!is_numeric($wait) || $wait < 0)) {
            throw new InvalidArgumentException("\"$connection\": wait is a number of seconds, 0 or more.");
        }
        if ('0' !== $global && '1' !== $global) {
            throw new InvalidArgumentException("\"$connection\": global is 0 or 1.");
        }

        return new LockshmStore('' === $dsn[1] ? null : $dsn[1], null === $wait ? null : (float) $wait, '1' === $global);
    }
}
