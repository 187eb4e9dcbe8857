<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel;

use Lockshm\Hold;
use Lockshm\Holder;
use Lockshm\Locks;
use Lockshm\LostException;
use Lockshm\NotHeldException;

/**
 * The holds of this process in one segment, by key, with Laravel's owner of each.
 *
 * Laravel's locks outlive their Lock objects: Cache::lock('job', 10)->get() is held for ten seconds, though no variable
 * has it.  So the holds are here; they end by release, and with the request.
 *
 * @internal
 */
final class Holds
{
    /** Longest key across hosts. */
    private const KEY_MAX = 640;

    /** Expired holds are dropped when there are more than this. */
    private const SWEEP_FROM = 64;

    /** @var array<string, self> by name of the segment */
    private static array $segments = [];

    /** @var array<string, array{Hold, string}> by key */
    private array $held = [];
    private int $sweepAt = self::SWEEP_FROM;

    private function __construct(public readonly Locks $locks)
    {
    }

    public static function of(Locks $locks): self
    {
        return self::$segments[$locks->name()] ??= new self($locks);
    }

    /**
     * Takes an exclusive hold of $key for $owner.
     *
     * @param float      $wait    0.0 = try once
     * @param float|null $seconds lease, not renewed; the key stays closed to its end if the hold is not released.
     *                            null = until the release or the end of the request
     * @param bool       $global  exclude other hosts, too
     *
     * @throws \Lockshm\TimeoutException  it is not free, and names the holder
     * @throws \Lockshm\DeadlockException this process holds it for longer than the wait, and would wait for itself
     */
    public function take(string $key, string $owner, float $wait, ?float $seconds, bool $global = false): void
    {
        $this->dropIfEnded($key);
        $this->leaveToItsSeconds($key, $wait);
        $tag = self::tag($owner);
        $hold = $this->locks->exclusive($key, $wait, $seconds, renew: false, outlive: true, tag: $tag, global: $global);
        if (\count($this->held) >= $this->sweepAt) {
            $this->sweep();
        }
        $this->held[$key] = [$hold, $owner];
    }

    /** A key of the segment: the name of a lock, or the digest of one that is no key. */
    public static function keyOf(string $name): string
    {
        return '' === $name || \strlen($name) > self::KEY_MAX ? 'sha256:'.hash('sha256', $name) : $name;
    }

    /** The hold or cooldown of $owner within its seconds, of any process of this host; null if there is none. */
    public function holderOf(string $key, string $owner): ?Holder
    {
        foreach ($this->locks->holders($key) as $holder) {
            if (self::tag($owner) === $holder->tag && self::isLive($holder)) {
                return $holder;
            }
        }

        return null;
    }

    public static function isLive(Holder $holder): bool
    {
        return null === $holder->expiresIn || $holder->expiresIn > 0;
    }

    /** The hold of $owner, or null if this process has none: never taken here, released, or lost. */
    public function hold(string $key, string $owner): ?Hold
    {
        return $this->owner($key) === $owner ? $this->held[$key][0] : null;
    }

    /** The owner of this process's hold of $key, also if its seconds have run out; null if it has none. */
    public function owner(string $key): ?string
    {
        if (!isset($this->held[$key])) {
            return null;
        }
        if (!$this->held[$key][0]->isHeld()) {
            unset($this->held[$key]);

            return null;
        }

        return $this->held[$key][1];
    }

    /** Forgets the hold; its object releases it, unless its owner has. */
    public function forget(string $key): void
    {
        unset($this->held[$key]);
    }

    /** What holders() shows of an owner: the owner, or a digest of one that is no tag, or none. */
    public static function tag(string $owner): string
    {
        $fits = '' !== $owner && \strlen($owner) <= 30 && !str_contains($owner, "\0");

        return $fits ? $owner : substr(hash('sha256', $owner), 0, 30);
    }

    /** Is the hold valid and within its seconds? */
    public static function inTime(Hold $hold): bool
    {
        try {
            return $hold->check();
        } catch (LostException|NotHeldException) {
            return false;
        }
    }

    private function dropIfEnded(string $key): void
    {
        if (isset($this->held[$key]) && !self::inTime($this->held[$key][0])) {
            $this->drop($key);
        }
    }

    /**
     * This process is about to wait for its own hold, which ends within the wait: without the object it is what is left
     * of its seconds, and the wait is one as any other.
     */
    private function leaveToItsSeconds(string $key, float $wait): void
    {
        if (0.0 === $wait || !isset($this->held[$key])) {
            return;
        }
        try {
            $left = $this->held[$key][0]->remaining();
        } catch (LostException|NotHeldException) {
            return;
        }
        if (null !== $left && $left <= $wait) {
            unset($this->held[$key]);
        }
    }

    private function sweep(): void
    {
        foreach (array_keys($this->held) as $key) {
            $this->dropIfEnded((string) $key);
        }
        $this->sweepAt = max(self::SWEEP_FROM, 2 * \count($this->held));
    }

    private function drop(string $key): void
    {
        $hold = $this->held[$key][0];
        unset($this->held[$key]);
        try {
            $hold->release();
        } catch (LostException|NotHeldException) {
            // Ended already.
        }
    }
}
