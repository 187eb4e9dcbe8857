<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel;

use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\Store;
use Lockshm\DeadlockException;
use Lockshm\Locks;
use Lockshm\TimeoutException;

/**
 * A cache store that keeps data in another store, and locks in a segment of liblockshm.
 *
 * Emptying the cache frees no lock.
 */
class LockshmStore implements LockProvider, Store
{
    protected readonly Holds $holds;

    /**
     * @param Store  $data   where the data are
     * @param Locks  $locks  where the locks are
     * @param string $prefix before the name of each lock, to tell applications apart that share a segment
     * @param bool   $global the locks exclude the other hosts with the same Redis, too: the segment was made with Redis
     *                       (lockctl create --redis), and a lockshm-bridge serves it on each host
     */
    public function __construct(
        protected readonly Store $data,
        Locks $locks,
        protected readonly string $prefix = '',
        protected readonly bool $global = false,
    ) {
        $this->holds = Holds::of($locks);
    }

    /** The store over $data, with tags() if $data has it. */
    public static function over(Store $data, Locks $locks, string $prefix = '', bool $global = false): self
    {
        $class = method_exists($data, 'tags') ? TaggableLockshmStore::class : self::class;

        return new $class($data, $locks, $prefix, $global);
    }

    /**
     * @param string      $name
     * @param int|float   $seconds 0 = until the release or the end of the request; ten years at most
     * @param string|null $owner
     */
    public function lock($name, $seconds = 0, $owner = null)
    {
        return new LockshmLock($this->holds, $this->prefix.$name, $seconds, $owner, $this->global);
    }

    /**
     * A lock by its owner, which may have taken it in another process of this host.
     *
     * @param string $name
     * @param string $owner
     */
    public function restoreLock($name, $owner)
    {
        return $this->lock($name, 0, $owner);
    }

    /** The store with the data. */
    public function data(): Store
    {
        return $this->data;
    }

    /** The segment with the locks. */
    public function locks(): Locks
    {
        return $this->holds->locks;
    }

    public function get($key)
    {
        return $this->data->get($key);
    }

    public function many(array $keys)
    {
        return $this->data->many($keys);
    }

    public function put($key, $value, $seconds)
    {
        return $this->data->put($key, $value, $seconds);
    }

    public function putMany(array $values, $seconds)
    {
        return $this->data->putMany($values, $seconds);
    }

    /** Stores if there is none; where the data's store cannot do that in one step, under a lock. */
    public function add($key, $value, $seconds)
    {
        if (method_exists($this->data, 'add')) {
            return $this->data->add($key, $value, $seconds);
        }
        try {
            $hold = $this->holds->locks->exclusive(Holds::keyOf("{$this->prefix}add:$key"), global: $this->global);
        } catch (TimeoutException|DeadlockException) {
            return false; // Another one adds it, as FileStore has it.
        }
        try {
            return null === $this->data->get($key) && $this->data->put($key, $value, $seconds);
        } finally {
            $hold->release();
        }
    }

    public function increment($key, $value = 1)
    {
        return $this->data->increment($key, $value);
    }

    public function decrement($key, $value = 1)
    {
        return $this->data->decrement($key, $value);
    }

    public function forever($key, $value)
    {
        return $this->data->forever($key, $value);
    }

    public function touch($key, $seconds)
    {
        return $this->data->touch($key, $seconds);
    }

    public function forget($key)
    {
        return $this->data->forget($key);
    }

    public function flush()
    {
        return $this->data->flush();
    }

    public function getPrefix()
    {
        return $this->data->getPrefix();
    }

    /** All else that the data's store can do. */
    public function __call(string $method, array $arguments): mixed
    {
        return $this->data->$method(...$arguments);
    }
}
