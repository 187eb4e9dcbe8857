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
    private readonly Locks $locks;

    /** @var array<string, array{Hold, int}> hold and number of its acquisitions, by path */
    private array $held = [];

    /**
     * @param Locks|string|null $segment the segment, or its name; null = that of the setting lockshm.segment.  One for
     *                                   each instance of Nextcloud
     * @param float             $lease   seconds after which the lock of a process that hangs is given to another
     * @param float             $wait    longest wait for a lock that is not free, in seconds; 0.0 = refused at once
     *
     * @throws \Lockshm\SegmentException the segment cannot be opened or made
     * @throws InvalidArgumentException  $lease or $wait is no time
     */
    public function __construct(
        Locks|string|null $segment,
        private readonly float $lease = 3600.0,
        private readonly float $wait = 0.0
    ) {
        if (!($lease > 0) || !($wait >= 0) || \INF === $lease || \INF === $wait) {
            throw new InvalidArgumentException("lease $lease, wait $wait: numbers of seconds, the lease more than 0.");
        }
        $this->locks = $segment instanceof Locks ? $segment : Locks::open($segment);
    }

    /** Is $path locked in just this mode, by any process? */
    public function isLocked(string $path, int $type): bool
    {
        $mode = self::mode($type);
        foreach ($this->locks->holders($path) as $holder) {
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
        [$hold, $count] = $this->current($path);
        if (null === $hold || $hold->isExclusive() === $exclusive || $count > 1) {
            throw new LockedException($path, null, null === $hold ? 'none of this process' : 'held by this process');
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
        try {
            return $shared
                ? $this->locks->shared($path, timeout: $this->wait, lease: $this->lease, renew: false)
                : $this->locks->exclusive($path, timeout: $this->wait, lease: $this->lease, renew: false);
        } catch (TimeoutException|DeadlockException $refused) {
            throw self::locked($path, $refused, $readablePath);
        }
    }

    /** @return array{?Hold, int} what this process holds of $path */
    private function current(string $path): array
    {
        if (isset($this->held[$path]) && !$this->held[$path][0]->isHeld()) {
            $this->release($path, $this->held[$path][0]);
            unset($this->held[$path]);
        }

        return $this->held[$path] ?? [null, 0];
    }

    private function release(string $path, Hold $hold): void
    {
        try {
            $hold->release();
        } catch (LostException $lost) {
            trigger_error("The lock of '$path' was lost before its release: {$lost->getMessage()}", \E_USER_WARNING);
        } catch (NotHeldException) {
            // Of the parent process, before fork().
        }
    }

    private static function locked(string $path, Exception $reason, ?string $readablePath = null): LockedException
    {
        return new LockedException($path, $reason, $reason->getMessage(), $readablePath);
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
