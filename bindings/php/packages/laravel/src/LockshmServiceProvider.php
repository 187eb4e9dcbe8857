<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel;

use Illuminate\Support\ServiceProvider;
use InvalidArgumentException;
use Lockshm\Locks;

/**
 * Registers the cache driver "lockshm":
 *
 *     // config/cache.php
 *     'stores' => [
 *         'lockshm' => ['driver' => 'lockshm', 'data' => 'redis', 'segment' => 'shop'],
 *
 * data: the name of the cache store with the data.  segment: that of the setting lockshm.segment if left out.  prefix: before the
 * names of locks; cache.prefix if left out.  global: true = the locks exclude other hosts, too; the segment was made with Redis.
 */
final class LockshmServiceProvider extends ServiceProvider
{
    /** Those of this driver, and of Laravel for every store. */
    private const KEYS = ['driver', 'data', 'segment', 'prefix', 'global', 'store', 'name', 'events', 'serializable_classes'];

    public function register(): void
    {
        $store = self::store(...);
        $this->callAfterResolving('cache', static function ($cache) use ($store): void {
            // Not static, and without self: the manager binds it to itself.
            $cache->extend('lockshm', function ($app, array $config) use ($cache, $store) {
                return $cache->repository($store($app, $config), $config);
            });
        });
    }

    private static function store($app, array $config): LockshmStore
    {
        $unknown = array_diff(array_keys($config), self::KEYS);
        if ($unknown) {
            throw new InvalidArgumentException(
                'A cache store with the driver [lockshm] has no ['.implode('], [', $unknown)."]: its keys are 'data', 'segment', 'prefix' and 'global'."
            );
        }
        $data = $config['data'] ?? null;
        if (!\is_string($data) || 'lockshm' === $app['config']["cache.stores.$data.driver"]) {
            throw new InvalidArgumentException(
                "A cache store with the driver [lockshm] needs 'data', the name of another cache store."
            );
        }

        return LockshmStore::over(
            $app['cache']->store($data)->getStore(),
            self::open($config['segment'] ?? null),
            (string) ($config['prefix'] ?? $app['config']['cache.prefix'] ?? ''),
            (bool) ($config['global'] ?? false)
        );
    }

    private static function open(mixed $segment): Locks
    {
        try {
            return Locks::open($segment);
        } catch (\ValueError|\TypeError $wrong) {
            throw new InvalidArgumentException("A cache store with the driver [lockshm] has a wrong 'segment': {$wrong->getMessage()}", 0, $wrong);
        }
    }
}
