<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony;

use Lockshm\BusyException;
use Lockshm\Hold;
use Lockshm\Locks;
use Lockshm\LostException;
use Lockshm\NotHeldException;
use Lockshm\TimeoutException;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Key;

/**
 * A store of symfony/lock over one segment of liblockshm.
 *
 * A lock ends by release(), when its TTL has run out and another request wants it, with its Key object, with the
 * request, and with the process, however that ends.  A TTL is never renewed but by Lock::refresh(); a lock without one
 * is strict.  A blocking acquire waits in the queue of the lock, in arrival order, without polling.
 *
 * The Key of a lock that is held cannot be serialised: the hold belongs to this process.  In a child made by fork()
 * nothing is held.
 */
final class LockshmStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    /** Shortest lease of the library, in seconds. */
    private const TTL_MIN = 0.001;

    private readonly Locks $locks;
    private readonly string $state;

    /**
     * @param Locks|string|null $segment the segment, or its name; null = that of the setting lockshm.segment
     * @param float|null        $wait    longest wait of a blocking acquire in seconds; null = no bound, as other stores
     * @param bool              $global  exclude the other hosts with the same Redis, too: the segment was made with Redis
     *                                   (lockctl create --redis), and a lockshm-bridge serves it on each host
     *
     * @throws \Lockshm\SegmentException the segment cannot be opened or made
     * @throws \ValueError               $segment is no name of a segment, or $wait is negative or not a number
     */
    public function __construct(
        Locks|string|null $segment = null,
        private readonly ?float $wait = null,
        private readonly bool $global = false,
    ) {
        if (null !== $wait && !($wait >= 0)) {
            throw new \ValueError(sprintf('wait: %s is no time to wait: seconds, or null for no bound.', $wait));
        }
        $this->locks = $segment instanceof Locks ? $segment : Locks::open($segment);
        $this->state = self::class.':'.$this->locks->name();
    }

    /** Takes the lock if it is free; a read lock of this key becomes exclusive if it is the only one and none waits. */
    public function save(Key $key): void
    {
        $this->acquire($key, 0.0, false);
    }

    /**
     * As save(), but waits.  A read lock that cannot become exclusive at once, as one across hosts, is given back, as
     * flock(2) does.
     */
    public function waitAndSave(Key $key): void
    {
        $this->acquire($key, $this->wait, false);
    }

    /** Takes the lock together with other readers; an exclusive lock of this key becomes a read lock. */
    public function saveRead(Key $key): void
    {
        $this->acquire($key, 0.0, true);
    }

    /** As saveRead(), but waits. */
    public function waitAndSaveRead(Key $key): void
    {
        $this->acquire($key, $this->wait, true);
    }

    /**
     * Lets the lock end $ttl seconds from now, unless it is put off again.
     *
     * A TTL that had run out is put off, too, as long as no other request has taken the lock in between.
     *
     * @throws LockConflictedException the lock is not held any more
     * @throws LockExpiredException    $ttl has run out already
     */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        $key->reduceLifetime($ttl);
        if (null === $this->renewed($key, max($ttl, self::TTL_MIN))) {
            throw new LockConflictedException("\"$key\" was taken by another request after its TTL, or released.");
        }
        $this->refuseExpired($key);
    }

    /** Ends the lock; nothing happens if it is not held, or lost. */
    public function delete(Key $key): void
    {
        if (!$key->hasState($this->state)) {
            return;
        }
        $hold = $key->getState($this->state);
        $key->removeState($this->state);
        try {
            $hold->release();
        } catch (LostException|NotHeldException) {
            // It is not held by this key any more, which is what was asked for.
        }
    }

    /** Is the lock held by this key, within its TTL? */
    public function exists(Key $key): bool
    {
        if (!$key->hasState($this->state)) {
            return false;
        }
        try {
            return $key->getState($this->state)->check();
        } catch (LostException|NotHeldException) {
            return false;
        }
    }

    /** The segment this store locks in. */
    public function locks(): Locks
    {
        return $this->locks;
    }

    /** @param float|null $wait 0.0 = try once, null = no bound */
    private function acquire(Key $key, ?float $wait, bool $shared): void
    {
        $hold = $this->renewed($key, null);
        try {
            $hold = $hold ? $this->changed($hold, $key, $wait, $shared) : $this->taken($key, $wait, $shared);
            $key->setState($this->state, $hold);
        } catch (TimeoutException $busy) {
            throw new LockConflictedException($busy->getMessage(), $busy->getCode(), $busy);
        }
        $key->markUnserializable();
        $this->refuseExpired($key);
    }

    /** Without a lease, since the TTL comes with putOffExpiration() only. */
    private function taken(Key $key, ?float $wait, bool $shared): Hold
    {
        return $shared
            ? $this->locks->shared((string) $key, timeout: $wait, lease: null, global: $this->global)
            : $this->locks->exclusive((string) $key, timeout: $wait, lease: null, global: $this->global);
    }

    private function changed(Hold $hold, Key $key, ?float $wait, bool $shared): Hold
    {
        if ($shared) {
            $hold->downgrade();

            return $hold;
        }
        try {
            $hold->upgrade();

            return $hold;
        } catch (BusyException $busy) {
            if (0.0 === $wait) {
                throw $busy;
            }
        }
        // Two readers that keep their holds while they wait to become writers would wait for each other.
        $this->delete($key);

        return $this->taken($key, $wait, false);
    }

    /**
     * The hold of this key with a new end, or null if there is none any more.
     *
     * @param float|null $ttl null = without an end, as it was taken
     */
    private function renewed(Key $key, ?float $ttl): ?Hold
    {
        if (!$key->hasState($this->state)) {
            return null;
        }
        $hold = $key->getState($this->state);
        try {
            $hold->renew($ttl);

            return $hold;
        } catch (LostException|NotHeldException) {
            $key->removeState($this->state);

            return null;
        }
    }

    private function refuseExpired(Key $key): void
    {
        if ($key->isExpired()) {
            $this->delete($key);
            throw new LockExpiredException(sprintf('The TTL of "%s" had run out when it was stored.', $key));
        }
    }
}
