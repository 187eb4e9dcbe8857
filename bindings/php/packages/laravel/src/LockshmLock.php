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

/**
 * One of Laravel's atomic locks, in a segment of liblockshm.
 *
 * With seconds it ends after them; if it was not released it outlives its request until then, unless the process was
 * killed.  Without seconds it ends by release, with its request, or with its process.
 */
class LockshmLock extends Lock
{
    /**
     * @param string      $name    the key in the segment
     * @param int|float   $seconds 0 = no end but release, request and process
     * @param string|null $owner   null = a random one
     * @param bool        $global  exclude other hosts, too
     */
    public function __construct(private readonly Holds $holds, $name, $seconds, $owner = null, private readonly bool $global = false)
    {
        self::checkSeconds((string) $name, $seconds);
        parent::__construct((string) $name, $seconds, $owner);
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
     * @throws LockTimeoutException not granted in time, with the holder in its message; or this process holds it itself
     */
    public function block($seconds, $callback = null)
    {
        try {
            $this->take(max(0.0, (float) $seconds));
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

    /** True if it was held by this owner until now; false if not, or if its seconds had run out. */
    public function release()
    {
        $hold = $this->holds->hold($this->name, $this->owner);
        if (null === $hold) {
            return false;
        }
        $this->holds->forget($this->name);
        try {
            return $hold->release();
        } catch (LostException|NotHeldException) {
            return false;
        }
    }

    /** Ends whatever holds the lock, in any process of this host, also what a request has left of its seconds. */
    public function forceRelease()
    {
        foreach ($this->holds->locks->holders($this->name) as $holder) {
            $this->holds->locks->end($this->name, $holder->token);
        }
    }

    /**
     * Lets the lock end $seconds from now, or the seconds it was made with.
     *
     * @param int|float|null $seconds 0 = no end but release, request and process
     *
     * @return bool false if this owner does not hold it here; true also after its seconds, if none has taken it
     */
    public function refresh($seconds = null)
    {
        $hold = $this->holds->hold($this->name, $this->owner);
        if (null === $hold) {
            return false;
        }
        $seconds ??= $this->seconds;
        self::checkSeconds($this->name, $seconds);
        try {
            $hold->renew($seconds > 0 ? (float) $seconds : INF);

            return true;
        } catch (LostException|NotHeldException) {
            $this->holds->forget($this->name);

            return false;
        }
    }

    /** Is the lock held, or left closed, by any process of this host? */
    public function isLocked(): bool
    {
        return null !== $this->getCurrentOwner();
    }

    /** Does this owner hold it in this process, within its seconds? */
    public function isOwnedByCurrentProcess()
    {
        $hold = $this->holds->hold($this->name, $this->owner);

        return null !== $hold && Holds::inTime($hold);
    }

    /** The fencing token: larger than that of every earlier hold of the lock; null if this owner does not hold it here. */
    public function token(): ?int
    {
        return $this->holds->hold($this->name, $this->owner)?->token();
    }

    protected function getCurrentOwner()
    {
        foreach ($this->holds->locks->holders($this->name) as $holder) {
            if (null === $holder->expiresIn || $holder->expiresIn > 0) {
                return $this->ownerOf($holder->tag, $holder->pid);
            }
        }

        return null;
    }

    private function ownerOf(string $tag, int $pid): string
    {
        $here = $this->holds->owner($this->name);
        if (null !== $here && Holds::tag($here) === $tag) {
            return $here;
        }

        return '' === $tag ? "process $pid" : $tag;
    }

    private static function checkSeconds(string $name, mixed $seconds): void
    {
        if (!is_numeric($seconds) || !($seconds >= 0) || INF === (float) $seconds) {
            $shown = var_export($seconds, true);
            throw new InvalidArgumentException("Lock '$name': $shown is no number of seconds: 0, or how long it may be held.");
        }
    }

    private function take(float $wait): void
    {
        $this->holds->take($this->name, $this->owner, $wait, $this->seconds > 0 ? (float) $this->seconds : null, $this->global);
    }
}
