<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Nextcloud;

use InvalidArgumentException;
use Lockshm\BusyException;
use Lockshm\DeadlockException;
use Lockshm\Exception;
use Lockshm\Hold;
use Lockshm\Locks;
use Lockshm\LostException;
use Lockshm\NotHeldException;
use Lockshm\TimeoutException;
use OCP\Lock\ILockingProvider;
use OCP\Lock\LockedException;

/**
 * Nextcloud's file locks in a segment of liblockshm.
 *
 * The locks of a request end with it, at the latest; those of a killed process at once.  A lock that was lost to
 * another process, after its lease or by an operator, is reported by a warning of PHP (E_USER_WARNING) when it is
 * released, since releaseLock() has no error.
 */
final class LockingProvider implements ILockingProvider
{
    /** Shortest and longest time of the library, in seconds. */
    private const TIME_MIN = 0.001;
    private const TIME_MAX = 315360000.0;

    /** Longest key across hosts. */
    private const KEY_MAX = 640;

    private readonly Locks $locks;
    private readonly float $lease;
    private readonly float $wait;

    /** @var array<string, array{Hold, int}> hold and number of its acquisitions, by path */
    private array $held = [];

    /**
     * @param Locks|string|null $segment the segment, or its name; null = that of the setting lockshm.segment.  One for
     *                                   each instance of Nextcloud
     * @param float             $lease   seconds after which the lock of a process that hangs is given to another
     * @param float             $wait    longest wait for a lock that is not free, in seconds; 0.0 = refused at once
     *
     * @throws \Lockshm\SegmentException the segment cannot be opened or made
     * @throws InvalidArgumentException  $segment is no name of one, or $lease or $wait is no time
     */
    public function __construct(Locks|string|null $segment, float $lease = 3600.0, float $wait = 0.0)
    {
        if (!($lease > 0) || !($wait >= 0) || \INF === $lease || \INF === $wait) {
            throw new InvalidArgumentException("lease $lease, wait $wait: numbers of seconds, the lease more than 0.");
        }
        $this->lease = min(max($lease, self::TIME_MIN), self::TIME_MAX);
        $this->wait = min($wait, self::TIME_MAX);
        try {
            $this->locks = $segment instanceof Locks ? $segment : Locks::open($segment);
        } catch (\ValueError $wrong) {
            throw new InvalidArgumentException("segment \"$segment\": {$wrong->getMessage()}", 0, $wrong);
        }
    }

    /** Is $path locked in just this mode, by any process? */
    public function isLocked(string $path, int $type): bool
    {
        $mode = self::mode($type);
        foreach ($this->locks->holders(self::keyOf($path)) as $holder) {
            if ($holder->mode === $mode && (null === $holder->expiresIn || $holder->expiresIn > 0)) {
                return true;
            }
        }

        return false;
    }

    /**
     * Takes the lock; a shared one that this process has already is taken once more, and has to be released once more.
     *
     * @throws LockedException it is not free; the holder is in its message
     */
    public function acquireLock(string $path, int $type, ?string $readablePath = null): void
    {
        $shared = 'shared' === self::mode($type);
        [$hold, $count] = $this->current($path);
        if (null === $hold) {
            $this->held[$path] = [$this->take($path, $shared, $readablePath), 1];
        } elseif ($shared && !$hold->isExclusive()) {
            $this->held[$path] = [$hold, $count + 1];
        } else {
            throw new LockedException($path, null, 'held by this process', $readablePath);
        }
    }

    /** Releases one acquisition; nothing happens if there is none of this mode. */
    public function releaseLock(string $path, int $type): void
    {
        $exclusive = 'exclusive' === self::mode($type);
        [$hold, $count] = $this->held[$path] ?? [null, 0];
        if (null === $hold || $hold->isExclusive() !== $exclusive) {
            return;
        }
        if ($count > 1) {
            $this->held[$path] = [$hold, $count - 1];

            return;
        }
        unset($this->held[$path]);
        $this->release($path, $hold);
    }

    /**
     * Makes the only shared lock exclusive, or the exclusive one shared.
     *
     * @throws LockedException there is none of the other mode, it is taken twice, or other processes read or wait
     */
    public function changeLock(string $path, int $targetType): void
    {
        $exclusive = 'exclusive' === self::mode($targetType);
        [$hold, $count, $ended] = $this->current($path);
        if (null === $hold || $hold->isExclusive() === $exclusive || $count > 1) {
            throw new LockedException($path, $ended, $hold ? 'held by this process' : $ended?->getMessage() ?? 'none of this process');
        }
        try {
            $exclusive ? $hold->upgrade() : $hold->downgrade();
        } catch (BusyException $busy) {
            throw self::locked($path, $busy);
        } catch (LostException|NotHeldException $lost) {
            unset($this->held[$path]);
            throw self::locked($path, $lost);
        }
    }

    /** Releases all that this object has acquired. */
    public function releaseAll(): void
    {
        $held = $this->held;
        $this->held = [];
        foreach ($held as $path => [$hold]) {
            $this->release((string) $path, $hold);
        }
    }

    private function take(string $path, bool $shared, ?string $readablePath): Hold
    {
        $key = self::keyOf($path);
        try {
            return $shared
                ? $this->locks->shared($key, timeout: $this->wait, lease: $this->lease, renew: false)
                : $this->locks->exclusive($key, timeout: $this->wait, lease: $this->lease, renew: false);
        } catch (TimeoutException|DeadlockException $refused) {
            throw self::locked($path, $refused, $readablePath);
        }
    }

    /** @return array{?Hold, int, ?Exception} what this process holds of $path; else how that has ended, if it had something */
    private function current(string $path): array
    {
        [$hold, $count] = $this->held[$path] ?? [null, 0];
        try {
            $hold?->check();
        } catch (LostException|NotHeldException $ended) {
            $this->release($path, $hold);
            unset($this->held[$path]);

            return [null, 0, $ended];
        }

        return [$hold, $count, null];
    }

    private function release(string $path, Hold $hold): void
    {
        try {
            $hold->release();
        } catch (LostException $lost) {
            trigger_error("The lock of '$path' was lost before its release: {$lost->getMessage()}", \E_USER_WARNING);
        } catch (NotHeldException) {
            // Of the parent process, before fork(): it is not this one's to end.
        }
    }

    private static function locked(string $path, Exception $reason, ?string $readablePath = null): LockedException
    {
        return new LockedException($path, $reason, $reason->getMessage(), $readablePath);
    }

    /** A path that is no key of the library is locked by its digest. */
    private static function keyOf(string $path): string
    {
        return '' === $path || \strlen($path) > self::KEY_MAX ? 'sha256:'.hash('sha256', $path) : $path;
    }

    private static function mode(int $type): string
    {
        return match ($type) {
            self::LOCK_SHARED => 'shared',
            self::LOCK_EXCLUSIVE => 'exclusive',
            default => throw new InvalidArgumentException("$type is no type of a lock: LOCK_SHARED (1) or LOCK_EXCLUSIVE (2)."),
        };
    }
}
