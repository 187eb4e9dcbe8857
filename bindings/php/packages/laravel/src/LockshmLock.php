<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel;

use Illuminate\Cache\Lock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use InvalidArgumentException;
use Lockshm\DeadlockException;
use Lockshm\LostException;
use Lockshm\NotHeldException;
use Lockshm\TimeoutException;
use RuntimeException;

/**
 * One of Laravel's atomic locks, in a segment of liblockshm.
 *
 * With seconds it ends after them; if it was not released it outlives its request until then, unless the process was
 * killed.  Without seconds it ends by release, with its request, or with its process.  As Laravel has it, an owner may
 * release in any process; but in the child of a fork the object of the parent is the parent's.
 */
class LockshmLock extends Lock
{
    /** Shortest and longest time of the library, in seconds. */
    private const TIME_MIN = 0.001;
    private const TIME_MAX = 315360000.0;

    private readonly string $key;

    /** The process that took it by this object. */
    private ?int $pid = null;

    /**
     * @param string      $name    the key in the segment
     * @param int|float   $seconds 0 = no end but release, request and process; ten years at most
     * @param string|null $owner   null = a random one
     * @param bool        $global  exclude other hosts, too
     *
     * @throws InvalidArgumentException $seconds is no time, or $owner no text
     */
    public function __construct(private readonly Holds $holds, $name, $seconds, $owner = null, private readonly bool $global = false)
    {
        self::checkSeconds((string) $name, $seconds);
        if (!is_null($owner) && !is_scalar($owner) && !$owner instanceof \Stringable) {
            throw new InvalidArgumentException("Lock '$name': ".get_debug_type($owner).' is no owner: a string, or null for a random one.');
        }
        parent::__construct((string) $name, $seconds, $owner);
        $this->key = Holds::keyOf((string) $name);
    }

    /** Takes the lock if it is free; false if not, also if this process holds it. */
    public function acquire()
    {
        try {
            $this->take(0.0);

            return true;
        } catch (TimeoutException|DeadlockException) {
            return false;
        }
    }

    /**
     * Waits $seconds at most in the queue of the lock, in arrival order, without polling; the sleep that
     * betweenBlockedAttemptsSleepFor() sets is accepted and has no effect.  0 or less: tries once.
     *
     * @throws LockTimeoutException     not granted in time, with the holder in its message; or this process holds it itself
     *                                  for longer
     * @throws InvalidArgumentException $seconds is no time
     */
    public function block($seconds, $callback = null)
    {
        try {
            $this->take($this->wait($seconds));
        } catch (TimeoutException|DeadlockException $refused) {
            throw new LockTimeoutException($refused->getMessage(), $refused->getCode(), $refused);
        }
        if (!\is_callable($callback)) {
            return true;
        }
        try {
            return $callback();
        } finally {
            $this->release();
        }
    }

    /** True if it was held by this owner until now, in any process of this host; false if not, or if its seconds had run out. */
    public function release()
    {
        $hold = $this->holds->hold($this->key, (string) $this->owner);
        if (null === $hold) {
            return $this->releaseElsewhere();
        }
        $this->holds->forget($this->key);
        try {
            return $hold->release();
        } catch (LostException|NotHeldException) {
            return false;
        }
    }

    /** Ends whatever holds the lock, in any process of this host, also what a request has left of its seconds. */
    public function forceRelease()
    {
        foreach ($this->holds->locks->holders($this->key) as $holder) {
            $this->holds->locks->end($this->key, $holder->token);
        }
    }

    /**
     * Lets the lock end $seconds from now, or the seconds it was made with.
     *
     * @param int|float|null $seconds 0 = no end but release, request and process
     *
     * @return bool false if this owner does not hold it; true also after its seconds, if none has taken it
     *
     * @throws RuntimeException this owner holds it in another process, which alone can renew it
     */
    public function refresh($seconds = null)
    {
        $seconds ??= $this->seconds;
        self::checkSeconds($this->name, $seconds);
        $hold = $this->holds->hold($this->key, (string) $this->owner);
        if (null === $hold) {
            return $this->refuseToRenewElsewhere();
        }
        try {
            $hold->renew(self::lease($seconds) ?? INF);

            return true;
        } catch (LostException|NotHeldException) {
            $this->holds->forget($this->key);

            return false;
        }
    }

    /** Is the lock held, or left closed, by any process of this host? */
    public function isLocked(): bool
    {
        return null !== $this->getCurrentOwner();
    }

    /** Does this owner hold it, within its seconds?  Not in the child of a fork by an object of the parent. */
    public function isOwnedByCurrentProcess()
    {
        $hold = $this->holds->hold($this->key, (string) $this->owner);
        if (null !== $hold) {
            return Holds::inTime($hold);
        }

        return !$this->isParents() && null !== $this->holds->holderOf($this->key, (string) $this->owner);
    }

    /** The fencing token: larger than that of every earlier hold of the lock; null if this owner does not hold it here. */
    public function token(): ?int
    {
        return $this->holds->hold($this->key, (string) $this->owner)?->token();
    }

    protected function getCurrentOwner()
    {
        foreach ($this->holds->locks->holders($this->key) as $holder) {
            if (Holds::isLive($holder)) {
                return $this->ownerOf($holder->tag, $holder->pid);
            }
        }

        return null;
    }

    private function ownerOf(string $tag, int $pid): mixed
    {
        if (Holds::tag((string) $this->owner) === $tag) {
            return $this->owner;
        }
        $here = $this->holds->owner($this->key);
        if (null !== $here && Holds::tag($here) === $tag) {
            return $here;
        }

        return '' === $tag ? "process $pid" : $tag;
    }

    /** The owner may have taken it in another process, or a request has left its seconds. */
    private function releaseElsewhere(): bool
    {
        $holder = $this->isParents() ? null : $this->holds->holderOf($this->key, (string) $this->owner);

        return null !== $holder && $this->holds->locks->end($this->key, $holder->token);
    }

    /** @return false this owner does not hold it */
    private function refuseToRenewElsewhere(): bool
    {
        $holder = $this->holds->holderOf($this->key, (string) $this->owner);
        if (null === $holder) {
            return false;
        }
        throw new RuntimeException('cooling' === $holder->state
            ? "Lock '{$this->name}' cannot be refreshed: the request that took it is over, and has left it closed for its seconds."
            : "Lock '{$this->name}' cannot be refreshed here: process {$holder->pid} holds it, and only that one can.");
    }

    /** Taken by this object before a fork, of which this process is the child. */
    private function isParents(): bool
    {
        return null !== $this->pid && getmypid() !== $this->pid;
    }

    private static function checkSeconds(string $name, mixed $seconds): void
    {
        if (!is_numeric($seconds) || !($seconds >= 0) || INF === (float) $seconds) {
            $shown = self::shown($seconds);
            throw new InvalidArgumentException("Lock '$name': $shown is no number of seconds: 0, or how long it may be held.");
        }
    }

    private static function shown(mixed $value): string
    {
        return null === $value || is_scalar($value) ? var_export($value, true) : get_debug_type($value);
    }

    /** null = none */
    private static function lease(int|float|string $seconds): ?float
    {
        return $seconds > 0 ? min(max((float) $seconds, self::TIME_MIN), self::TIME_MAX) : null;
    }

    private function wait(mixed $seconds): float
    {
        $seconds ??= 0;
        if ((!is_numeric($seconds) && !is_bool($seconds)) || is_nan((float) $seconds)) {
            throw new InvalidArgumentException("Lock '{$this->name}': ".self::shown($seconds).' is no number of seconds to wait.');
        }

        return $seconds > self::TIME_MAX ? INF : max(0.0, (float) $seconds);
    }

    private function take(float $wait): void
    {
        $this->holds->take($this->key, (string) $this->owner, $wait, self::lease($this->seconds), $this->global);
        $this->pid = getmypid();
    }
}
