<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Nextcloud\Tests;

use InvalidArgumentException;
use Lockshm\Nextcloud\LockingProvider;
use Lockshm\Testing\Child;
use Lockshm\Testing\Script;
use Lockshm\Testing\Segment;
use OCP\Lock\ILockingProvider;
use OCP\Lock\LockedException;
use PHPUnit\Framework\TestCase;

final class LockingProviderTest extends TestCase
{
    private const SHARED = ILockingProvider::LOCK_SHARED;
    private const EXCLUSIVE = ILockingProvider::LOCK_EXCLUSIVE;

    private LockingProvider $provider;
    private string $path;

    protected function setUp(): void
    {
        $this->provider = new LockingProvider(Segment::name());
        $this->path = uniqid('files/', true);
    }

    public function testAnExclusiveLockIsShownAsThat(): void
    {
        $this->assertModes(false, false);
        $this->provider->acquireLock($this->path, self::EXCLUSIVE);
        $this->assertModes(false, true);
        $this->provider->releaseLock($this->path, self::EXCLUSIVE);
        $this->assertModes(false, false);
    }

    public function testASharedLockIsReleasedAsOftenAsAcquired(): void
    {
        $this->provider->acquireLock($this->path, self::SHARED);
        $this->provider->acquireLock($this->path, self::SHARED);
        $this->provider->releaseLock($this->path, self::SHARED);
        $this->assertModes(true, false);
        $this->provider->releaseLock($this->path, self::SHARED);
        $this->assertModes(false, false);
        $this->provider->releaseLock($this->path, self::SHARED);
        $this->provider->acquireLock($this->path, self::EXCLUSIVE);
        $this->assertModes(false, true);
    }

    /** @dataProvider conflicts */
    public function testModesThatExcludeEachOther(int $first, int $second): void
    {
        $this->provider->acquireLock($this->path, $first);
        foreach ([$this->provider, new LockingProvider(Segment::name())] as $provider) {
            try {
                $provider->acquireLock($this->path, $second, 'Readable/path');
                $this->fail('Both locks are held.');
            } catch (LockedException $locked) {
                $this->assertSame($this->path, $locked->getPath());
                $this->assertStringContainsString('Readable/path', $locked->getMessage());
            }
        }
        $this->assertModes(self::SHARED === $first, self::EXCLUSIVE === $first);
    }

    public static function conflicts(): array
    {
        return [[self::SHARED, self::EXCLUSIVE], [self::EXCLUSIVE, self::SHARED], [self::EXCLUSIVE, self::EXCLUSIVE]];
    }

    public function testALockIsChanged(): void
    {
        $this->provider->acquireLock($this->path, self::SHARED);
        $this->provider->changeLock($this->path, self::EXCLUSIVE);
        $this->assertModes(false, true);
        $this->provider->changeLock($this->path, self::SHARED);
        $this->assertModes(true, false);
        $this->provider->releaseLock($this->path, self::EXCLUSIVE);
        $this->assertModes(true, false);
        $this->provider->releaseLock($this->path, self::SHARED);
        $this->assertModes(false, false);
    }

    /** @dataProvider refusedChanges */
    public function testAChangeIsRefused(array $held, int $target): void
    {
        foreach ($held as $type) {
            $this->provider->acquireLock($this->path, $type);
        }
        $this->expectException(LockedException::class);
        $this->provider->changeLock($this->path, $target);
    }

    public static function refusedChanges(): array
    {
        return [
            'none' => [[], self::EXCLUSIVE],
            'none to share' => [[], self::SHARED],
            'shared already' => [[self::SHARED], self::SHARED],
            'exclusive already' => [[self::EXCLUSIVE], self::EXCLUSIVE],
            'shared twice' => [[self::SHARED, self::SHARED], self::EXCLUSIVE],
        ];
    }

    public function testAReaderElsewhereRefusesTheChange(): void
    {
        $reader = $this->holder(self::SHARED);
        $this->provider->acquireLock($this->path, self::SHARED);
        try {
            $this->provider->changeLock($this->path, self::EXCLUSIVE);
            $this->fail('A writer beside a reader.');
        } catch (LockedException) {
            $this->assertModes(true, false);
        }
        $reader->send('end');
        $reader->end();
        $this->provider->changeLock($this->path, self::EXCLUSIVE);
        $this->assertModes(false, true);
    }

    public function testReleaseAll(): void
    {
        $this->provider->acquireLock($this->path, self::SHARED);
        $this->provider->acquireLock($this->path, self::SHARED);
        $this->provider->acquireLock("$this->path-2", self::EXCLUSIVE);
        $this->provider->acquireLock("$this->path-3", self::SHARED);
        $this->provider->changeLock("$this->path-3", self::EXCLUSIVE);
        $this->provider->acquireLock('123', self::EXCLUSIVE);
        $this->provider->releaseAll();
        foreach ([$this->path, "$this->path-2", "$this->path-3", '123'] as $path) {
            $this->assertFalse(Segment::open()->isLocked($path));
        }
        $this->provider->releaseLock($this->path, self::SHARED);
        $this->provider->releaseAll();
    }

    public function testTheLockOfAKilledProcessIsFree(): void
    {
        $holder = $this->holder(self::EXCLUSIVE);
        $this->assertModes(false, true);
        $holder->kill();
        $this->provider->acquireLock($this->path, self::EXCLUSIVE);
        $this->assertModes(false, true);
    }

    public function testTheHolderIsInTheException(): void
    {
        $holder = $this->holder(self::EXCLUSIVE);
        try {
            $this->provider->acquireLock($this->path, self::SHARED);
            $this->fail('A reader beside a writer.');
        } catch (LockedException $locked) {
            $this->assertStringContainsString((string) $holder->pid, $locked->getMessage());
        }
        $holder->kill();
    }

    /** @dataProvider types */
    public function testWithAWaitALockIsGrantedWhenItIsReleased(int $type): void
    {
        $holder = $this->holder(self::EXCLUSIVE);
        $waiter = Child::run(function (Child $test) use ($type): void {
            $provider = new LockingProvider(Segment::name(), 3600.0, 3600.0);
            $provider->acquireLock($this->path, $type);
            $test->send('acquired');
        });
        $waiter->awaitWaiting(Segment::name(), $this->path);
        $holder->send('end');
        $waiter->receive('acquired');
        $waiter->end();
        $holder->end();
        $this->assertModes(false, false);
    }

    public static function types(): array
    {
        return ['shared' => [self::SHARED], 'exclusive' => [self::EXCLUSIVE]];
    }

    public function testTheLocksOfARequestEndWithIt(): void
    {
        Script::run(__DIR__.'/bootstrap.php', sprintf(
            '$provider = new Lockshm\Nextcloud\LockingProvider(%s); $provider->acquireLock(%s, 2);'
                .'$cycle = (object) ["provider" => $provider]; $cycle->itself = $cycle;',
            var_export(Segment::name(), true),
            var_export($this->path, true)
        ));
        $this->assertModes(false, false);
    }

    /** @dataProvider releases */
    public function testALostLockIsReportedAtItsRelease(\Closure $release): void
    {
        $provider = new LockingProvider(Segment::name(), 0.05);
        $provider->acquireLock($this->path, self::EXCLUSIVE);
        $other = Child::run(function (Child $test): void {
            $provider = new LockingProvider(Segment::name(), 3600.0, 3600.0);
            $provider->acquireLock($this->path, self::EXCLUSIVE);
            $test->send('acquired');
            $test->receive('end');
        });
        $other->receive('acquired');
        $warnings = [];
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            $warnings[] = [$level, $message];

            return true;
        });
        try {
            $release($provider, $this->path);
        } finally {
            restore_error_handler();
        }
        $this->assertCount(1, $warnings);
        $this->assertSame(\E_USER_WARNING, $warnings[0][0]);
        $this->assertStringContainsString($this->path, $warnings[0][1]);
        $this->assertModes(false, true);
        $other->kill();
    }

    public static function releases(): array
    {
        return [
            'one' => [static fn ($provider, $path) => $provider->releaseLock($path, self::EXCLUSIVE)],
            'all' => [static fn ($provider, $path) => $provider->releaseAll()],
        ];
    }

    /** @dataProvider callsWithAType */
    public function testAWrongTypeIsRefused(\Closure $call): void
    {
        $this->expectException(InvalidArgumentException::class);
        $call($this->provider);
    }

    public static function callsWithAType(): array
    {
        return [
            [static fn ($provider) => $provider->isLocked('path', 0)],
            [static fn ($provider) => $provider->acquireLock('path', 0)],
            [static fn ($provider) => $provider->releaseLock('path', 3)],
            [static fn ($provider) => $provider->changeLock('path', 0)],
        ];
    }

    /** @dataProvider wrongTimes */
    public function testWrongTimesAreRefused(float $lease, float $wait): void
    {
        $this->expectException(InvalidArgumentException::class);
        new LockingProvider(Segment::name(), $lease, $wait);
    }

    public static function wrongTimes(): array
    {
        return [[0.0, 0.0], [-1.0, 0.0], [\NAN, 0.0], [\INF, 0.0], [1.0, -1.0], [1.0, \NAN], [1.0, \INF]];
    }

    /** @dataProvider wrongSegments */
    public function testAWrongSegmentIsRefused(string $segment): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage("segment \"$segment\":");
        new LockingProvider($segment);
    }

    public static function wrongSegments(): array
    {
        return [[''], ['a b'], ["a\0b"], ['../a'], [str_repeat('a', 201)]];
    }

    /** @dataProvider edges */
    public function testAnyPathAndTimeIsTaken(string $path, float $lease, float $wait): void
    {
        $provider = new LockingProvider(Segment::name(), $lease, $wait);
        $provider->acquireLock($path, self::SHARED);
        $this->assertTrue($provider->isLocked($path, self::SHARED));
        $this->assertFalse($provider->isLocked($path.'x', self::SHARED));
        $provider->changeLock($path, self::EXCLUSIVE);
        $this->assertTrue($provider->isLocked($path, self::EXCLUSIVE));
        $provider->releaseLock($path, self::EXCLUSIVE);
        $this->assertFalse($provider->isLocked($path, self::EXCLUSIVE));
    }

    public static function edges(): array
    {
        return [
            ['', 3600.0, 0.0], ['0', 3600.0, 0.0], ["a\0b", 3600.0, 0.0], ["\xff", 3600.0, 0.0],
            [str_repeat('n', 641), 3600.0, 0.0], [str_repeat('n', 100000), 3600.0, 0.0],
            ['path', 1e12, 1e12], ['path', 1e300, 1e300], ['path', 3600.0, 1e-300],
        ];
    }

    public function testInAForkedChildTheLocksAreTheParents(): void
    {
        $this->provider->acquireLock($this->path, self::EXCLUSIVE);
        $child = Child::run(function (Child $test): void {
            foreach ([
                fn () => $this->provider->changeLock($this->path, self::SHARED),
                fn () => $this->provider->acquireLock($this->path, self::EXCLUSIVE),
            ] as $call) {
                try {
                    $call();
                    $test->send('done');
                } catch (LockedException $locked) {
                    $test->send($locked->getMessage());
                }
            }
            $this->provider->releaseLock($this->path, self::EXCLUSIVE);
            $this->provider->releaseAll();
        });
        $this->assertStringContainsString('a hold of the parent process', $child->receive());
        $this->assertStringContainsString('held exclusive by pid '.getmypid(), $child->receive());
        $child->end();
        $this->assertModes(false, true);
    }

    private function assertModes(bool $shared, bool $exclusive): void
    {
        foreach ([$this->provider, new LockingProvider(Segment::name())] as $provider) {
            $this->assertSame($shared, $provider->isLocked($this->path, self::SHARED));
            $this->assertSame($exclusive, $provider->isLocked($this->path, self::EXCLUSIVE));
        }
    }

    /** A process that holds the lock until "end". */
    private function holder(int $type): Child
    {
        $holder = Child::run(function (Child $test) use ($type): void {
            $provider = new LockingProvider(Segment::name());
            $provider->acquireLock($this->path, $type);
            $test->send('held');
            $test->receive('end');
            $provider->releaseAll();
        });
        $holder->receive('held');

        return $holder;
    }
}
