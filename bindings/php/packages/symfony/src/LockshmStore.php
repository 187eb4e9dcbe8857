<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony;

use Lockshm\BusyException;
use Lockshm\Hold;
use Lockshm\Locks;
use Lockshm\LostException;
use Lockshm\NotHeldException;
use Lockshm\SegmentException;
use Lockshm\TimeoutException;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;

/**
 * A store of symfony/lock over one segment of liblockshm.
 *
 * A lock ends by release(), when its TTL has run out and another request wants it, and with the process, however that
 * ends.  If its Key is gone without a release (autoRelease: false) it stays for its TTL, also after the request; without
 * a TTL, as a read lock, and after a fatal error it ends then.  A TTL is never renewed but by Lock::refresh(); a lock
 * without one is strict.  A blocking acquire waits in the queue of the lock, in arrival order, without polling.
 *
 * The Key of a lock that is held cannot be serialised: the hold belongs to this process.  In a child made by fork()
 * nothing is held.
 */
final class LockshmStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    /** Shortest and longest time of the library, in seconds. */
    private const TIME_MIN = 0.001;
    private const TIME_MAX = 315360000.0;

    /** Longest key across hosts. */
    private const KEY_MAX = 640;

    private readonly Locks $locks;
    private readonly string $state;
    private readonly ?float $wait;

    /**
     * @param Locks|string|null $segment the segment, or its name; null = that of the setting lockshm.segment
     * @param float|null        $wait    longest wait of a blocking acquire in seconds; null = no bound, as other stores
     * @param bool              $global  exclude the other hosts with the same Redis, too: the segment was made with Redis
     *                                   (lockctl create --redis), and a lockshm-bridge serves it on each host
     *
     * @throws LockStorageException     the segment cannot be opened or made
     * @throws InvalidArgumentException $segment is no name of a segment, or $wait is negative or not a number
     */
    public function __construct(Locks|string|null $segment = null, ?float $wait = null, private readonly bool $global = false)
    {
        if (null !== $wait && !($wait >= 0)) {
            throw new InvalidArgumentException("wait: $wait is no time to wait: seconds, or null for no bound.");
        }
        $this->wait = $wait > self::TIME_MAX ? null : $wait;
        $this->locks = $segment instanceof Locks ? $segment : self::open($segment);
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
     * Lets the lock end $ttl seconds from now, unless it is put off again; ten years at most.
     *
     * A TTL that had run out is put off, too, as long as no other request has taken the lock in between.
     *
     * @throws LockConflictedException the lock is not held by this process any more, or never was
     * @throws LockExpiredException    $ttl has run out already
     * @throws InvalidTtlException     $ttl is not a number
     */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        if (is_nan($ttl)) {
            throw new InvalidTtlException("The TTL of \"$key\" is not a number.");
        }
        if (!$key->hasState($this->state)) {
            throw new LockConflictedException("\"$key\" is not held: it was not acquired, or released.");
        }
        $key->reduceLifetime($ttl);
        try {
            $key->getState($this->state)->renew(min(max($ttl, self::TIME_MIN), self::TIME_MAX));
        } catch (LostException|NotHeldException $ended) {
            throw new LockConflictedException("\"$key\" is not held: {$ended->getMessage()}.", $ended->getCode(), $ended);
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

    /** @throws InvalidArgumentException|LockStorageException */
    private static function open(?string $segment): Locks
    {
        try {
            return Locks::open($segment);
        } catch (\ValueError $wrong) {
            throw new InvalidArgumentException("segment \"$segment\": {$wrong->getMessage()}", 0, $wrong);
        } catch (SegmentException $broken) {
            throw new LockStorageException($broken->getMessage(), $broken->getCode(), $broken);
        }
    }

    /** @param float|null $wait 0.0 = try once, null = no bound */
    private function acquire(Key $key, ?float $wait, bool $shared): void
    {
        try {
            $hold = $this->held($key);
            $hold = $hold ? $this->changed($hold, $key, $wait, $shared) : $this->taken($key, $wait, $shared);
        } catch (TimeoutException $busy) {
            throw new LockConflictedException($busy->getMessage(), $busy->getCode(), $busy);
        }
        $key->setState($this->state, $hold);
        $key->markUnserializable();
        $this->refuseExpired($key);
    }

    /** Without a lease, since the TTL comes with putOffExpiration() only. */
    private function taken(Key $key, ?float $wait, bool $shared): Hold
    {
        $name = self::keyOf((string) $key);

        return $shared
            ? $this->locks->shared($name, timeout: $wait, lease: null, global: $this->global)
            : $this->locks->exclusive($name, timeout: $wait, lease: null, outlive: true, global: $this->global);
    }

    /** The hold in the other mode, or as it is, without an end as if taken now. */
    private function changed(Hold $hold, Key $key, ?float $wait, bool $shared): Hold
    {
        try {
            $shared ? $hold->downgrade() : $hold->upgrade();
            $hold->renew();

            return $hold;
        } catch (BusyException $busy) {
            if (0.0 === $wait) {
                throw $busy;
            }
        } catch (LostException|NotHeldException) {
            // Lost just now: as if it had not been held.
        }
        // Two readers that keep their holds while they wait to become writers would wait for each other.
        $this->delete($key);

        return $this->taken($key, $wait, $shared);
    }

    /** The hold of this key, or null if it has none in this process any more. */
    private function held(Key $key): ?Hold
    {
        $hold = $key->hasState($this->state) ? $key->getState($this->state) : null;

        return $hold?->isHeld() ? $hold : null;
    }

    /** A resource without a name, or with one that is no key of the library, is locked by its digest. */
    private static function keyOf(string $resource): string
    {
        return '' === $resource || \strlen($resource) > self::KEY_MAX ? 'sha256:'.hash('sha256', $resource) : $resource;
    }

    private function refuseExpired(Key $key): void
    {
        if ($key->isExpired()) {
            $this->delete($key);
            throw new LockExpiredException(sprintf('The TTL of "%s" had run out when it was stored.', $key));
        }
    }
}
