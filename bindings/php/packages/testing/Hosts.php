<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Testing;

use Lockshm\Locks;

/** Two segments that play hosts, each with a bridge to one redis-server, which the script of the tests has started. */
final class Hosts
{
    /** Why there are none; null = there are. */
    public static function missing(): ?string
    {
        return getenv('HOST_A') ? null : (getenv('HOSTS_MISSING') ?: 'HOST_A is not set: started without hosts');
    }

    /** @return array{Locks, Locks} */
    public static function open(): array
    {
        $options = ['redis' => getenv('REDIS_URI'), 'redis_ttl' => 60, 'redis_policy' => 'wait', 'global_keys' => 'seg:'];
        $hosts = [Locks::open(getenv('HOST_A'), $options), Locks::open(getenv('HOST_B'), $options)];
        foreach ($hosts as $locks) {
            $locks->exclusive('first', 60, global: true)->release(); // its bridge leads
        }

        return $hosts;
    }
}
