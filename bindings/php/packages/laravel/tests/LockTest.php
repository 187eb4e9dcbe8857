<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\Tests;

use Illuminate\Contracts\Cache\Lock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use InvalidArgumentException;
use Lockshm\Laravel\LockshmLock;
use Lockshm\Testing\Child;
use Lockshm\Testing\Script;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;

/** Laravel's lock contract, as Cache::lock() gives it. */
final class LockTest extends TestCase
{
    private string $name;

    protected function setUp(): void
    {
        $this->name = uniqid($this->getName().'-', true);
    }

    public function testOneOfTwoLocksIsTaken(): void
    {
        $one = $this->lock(3600);
        $this->assertTrue($one->get());
        $this->assertFalse($this->lock(3600)->get());
        $this->assertTrue($one->release());
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testTheValueOfTheCallbackIsReturnedAndTheLockReleased(): void
    {
        $this->assertSame('value', $this->lock(3600)->get(static fn () => 'value'));
        $this->assertSame('value', $this->lock(3600)->block(1, static fn () => 'value'));
        $this->assertTrue($this->lock(3600)->block(1));
    }

    public function testACallbackThatThrowsReleases(): void
    {
        try {
            $this->lock(3600)->block(1, static function (): void {
                throw new \DomainException('of the callback');
            });
            $this->fail('The exception of the callback is lost.');
        } catch (\DomainException) {
            $this->assertTrue($this->lock(3600)->get());
        }
    }

    public function testALockOutlivesItsObject(): void
    {
        $this->lock(3600)->get();
        gc_collect_cycles();
        $this->assertFalse($this->lock(3600)->get());
    }

    public function testOnlyItsOwnerReleases(): void
    {
        $lock = $this->lock(3600);
        $lock->get();
        $this->assertFalse($this->lock(3600)->release());
        $this->assertFalse($this->lock(3600)->get());
        $this->assertTrue($this->lock(3600, $lock->owner())->release());
        $this->assertFalse($lock->release());
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testOwners(): void
    {
        $lock = $this->lock(3600);
        $this->assertFalse($lock->isLocked());
        $this->assertFalse($lock->isOwnedByCurrentProcess());
        $lock->get();
        $this->assertTrue($lock->isLocked());
        $this->assertTrue($lock->isOwnedByCurrentProcess());
        $this->assertFalse($this->lock(3600)->isOwnedByCurrentProcess());
        $this->assertTrue($this->lock(3600)->isLocked());
        $this->assertSame(16, \strlen($lock->owner()));
        $this->assertSame('me', $this->lock(3600, 'me')->owner());
    }

    public function testALongOwnerIsTheOwner(): void
    {
        $owner = str_repeat('long ', 20);
        $lock = $this->lock(3600, $owner);
        $lock->get();
        $this->assertTrue($lock->isOwnedByCurrentProcess());
        $this->assertTrue($this->lock(3600, $owner)->release());
    }

    public function testALockEndsAfterItsSeconds(): void
    {
        $lock = $this->lock(0.1);
        $this->assertTrue($lock->get());
        $this->await(static fn () => !$lock->isLocked());
        $this->assertFalse($lock->isOwnedByCurrentProcess());
        $other = $this->lock(3600);
        $this->assertTrue($other->get());
        $this->assertFalse($lock->release(), 'a lock that was lost');
        $this->assertTrue($other->isOwnedByCurrentProcess());
    }

    public function testALockWithoutSecondsHasNoEnd(): void
    {
        $this->lock(0)->get();
        [$holder] = $this->holders();
        $this->assertNull($holder->expiresIn);
    }

    public function testRefreshMovesTheEnd(): void
    {
        $lock = $this->lock(3600);
        $this->assertFalse($lock->refresh());
        $lock->get();
        $this->assertTrue($lock->refresh(100000));
        $this->assertGreaterThan(50000, $this->holders()[0]->expiresIn);
        $this->assertTrue($lock->refresh());
        $this->assertLessThan(3601, $this->holders()[0]->expiresIn);
        $this->assertTrue($lock->refresh(0));
        $this->assertNull($this->holders()[0]->expiresIn);
        $this->assertTrue($this->lock(0, $lock->owner())->refresh());
        $this->assertFalse($this->lock(3600)->refresh());
        $this->expectException(InvalidArgumentException::class);
        $lock->refresh(-1);
    }

    public function testAWaiterIsGrantedByTheRelease(): void
    {
        $holder = $this->holder(3600);
        $waiter = $this->waiter();
        $waiter->awaitWaiting(Segment::name(), $this->key());
        $holder->send('release');
        $holder->receive();
        $holder->receive('true');
        $waiter->receive('true');
        $waiter->end();
        $holder->send('end');
        $holder->end();
        $this->assertFalse($this->lock(3600)->isLocked());
    }

    public function testAWaiterIsGrantedWhenTheHolderIsKilled(): void
    {
        $holder = $this->holder(3600);
        $waiter = $this->waiter();
        $waiter->awaitWaiting(Segment::name(), $this->key());
        $holder->kill();
        $waiter->receive('true');
        $waiter->end();
        $this->assertFalse($this->lock(3600)->isLocked());
    }

    public function testATimeOutNamesTheHolder(): void
    {
        $holder = $this->holder(3600);
        try {
            $this->lock(3600)->block(0.05);
            $this->fail('Two locks of one name are held.');
        } catch (LockTimeoutException $timeout) {
            $this->assertStringContainsString((string) $holder->pid, $timeout->getMessage());
        }
        $holder->kill();
    }

    public function testABlockOfZeroSecondsTriesOnce(): void
    {
        $this->assertTrue($this->lock(3600)->block(0));
        $this->expectException(LockTimeoutException::class);
        $this->lock(3600)->block(0);
    }

    public function testABlockOfANegativeTimeTriesOnce(): void
    {
        $this->assertSame('value', $this->lock(3600)->block(-1, static fn () => 'value'));
        $this->holder(3600);
        $this->expectException(LockTimeoutException::class);
        $this->lock(3600)->block(-1);
    }

    public function testAWaitForALockOfTheSameProcessEndsAtOnce(): void
    {
        $this->lock(3600)->get();
        $this->expectException(LockTimeoutException::class);
        $this->lock(3600)->block(3600);
    }

    public function testTheSleepBetweenAttemptsIsAccepted(): void
    {
        $lock = $this->lock(3600);
        $this->assertSame($lock, $lock->betweenBlockedAttemptsSleepFor(50));
        $this->assertTrue($lock->block(1));
    }

    public function testALockWithSecondsOutlivesItsRequest(): void
    {
        $owner = $this->request('$lock = $app->store()->lock(%s, 3600); $lock->get(); echo $lock->owner();');
        $this->assertFalse($this->lock(3600)->get());
        $this->assertTrue($this->lock(3600)->isLocked());
        $this->assertSame('cooling', $this->holders()[0]->state);
        $this->assertSame($owner, $this->holders()[0]->tag);
        $this->lock(3600)->forceRelease();
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testALockWithoutSecondsEndsWithItsRequest(): void
    {
        $this->assertSame('1', $this->request('echo $app->store()->lock(%s)->get();'));
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testALockThatLostItsSecondsEndsWithItsRequest(): void
    {
        $this->assertSame('11', $this->request('$lock = $app->store()->lock(%s, 3600); echo $lock->get(), $lock->refresh(0);'));
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testAReleasedLockLeavesNothing(): void
    {
        $this->assertSame('11', $this->request('$lock = $app->store()->lock(%s, 3600); echo $lock->get(), $lock->release();'));
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testARequestThatEndsByAFatalErrorLeavesItsSeconds(): void
    {
        $this->request('ini_set("display_errors", "0"); $app->store()->lock(%s, 3600)->get(); no_such_function();', 255);
        $this->assertFalse($this->lock(3600)->get());
    }

    public function testForceReleaseEndsTheHoldOfAnotherProcess(): void
    {
        $holder = $this->holder(3600);
        $this->lock(0)->forceRelease();
        $this->assertTrue($this->lock(3600)->get());
        $holder->send('release');
        $holder->receive();
        $holder->receive('false');
        $this->assertTrue($this->lock(3600)->isLocked());
        $holder->send('end');
        $holder->end();
    }

    public function testForceReleaseEndsTheHoldOfThisProcess(): void
    {
        $lock = $this->lock(0);
        $lock->get();
        $this->lock(0)->forceRelease();
        $this->assertFalse($lock->isOwnedByCurrentProcess());
        $this->assertTrue($this->lock(0)->get());
    }

    public function testRestoreInTheSameProcess(): void
    {
        $lock = $this->lock(3600);
        $lock->get();
        $restored = $this->app()->store()->restoreLock($this->name, $lock->owner());
        $this->assertTrue($restored->isOwnedByCurrentProcess());
        $this->assertFalse($this->app()->store()->restoreLock($this->name, 'another')->isOwnedByCurrentProcess());
        $this->assertTrue($restored->release());
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testAnOwnerReleasesInAnotherProcess(): void
    {
        foreach ([null, 'me', str_repeat('long ', 20), "a null byte \0", '', 4711] as $owner) {
            $holder = $this->holder(3600, $owner);
            $owner = $holder->receive();
            $this->assertFalse($this->restored($owner.'x')->release());
            $restored = $this->restored($owner);
            $this->assertTrue($restored->isOwnedByCurrentProcess());
            $this->assertTrue($restored->release(), "by '$owner'");
            $this->assertFalse($restored->release());
            $this->assertFalse($this->lock(3600)->isLocked());
            $holder->send('release');
            $holder->receive('false');
            $holder->kill();
        }
        $this->assertFalse($this->restored('me')->release());
    }

    public function testAnOwnerReleasesWhatItsRequestHasLeft(): void
    {
        $owner = $this->request('$lock = $app->store()->lock(%s, 3600); $lock->get(); echo $lock->owner();');
        $this->assertFalse($this->lock(3600)->get());
        $this->assertTrue($this->restored($owner)->release());
        $this->assertTrue($this->lock(3600)->get());
    }

    public function testOnlyTheProcessThatHoldsItRefreshes(): void
    {
        $this->assertFalse($this->restored('me')->refresh(5));
        $owner = $this->request('$lock = $app->store()->lock(%s, 3600); $lock->get(); echo $lock->owner();');
        $this->assertRefreshThrows($owner, 'the request that took it is over');
        $this->assertTrue($this->restored($owner)->release());
        $holder = $this->holder(3600);
        $this->assertRefreshThrows($holder->receive(), "process {$holder->pid} holds it");
        $holder->kill();
    }

    public function testInAForkedChildTheLockIsTheParents(): void
    {
        $lock = $this->lock(3600);
        $lock->get();
        $child = Child::run(function (Child $test) use ($lock): void {
            $test->send(json_encode([$lock->isOwnedByCurrentProcess(), $lock->release(), $lock->get(), $lock->release()]));
            try {
                $lock->refresh(7200);
            } catch (\RuntimeException $refused) {
                $test->send($refused->getMessage());
            }
            try {
                $lock->block(0.01);
            } catch (LockTimeoutException $timeout) {
                $test->send($timeout->getMessage());
            }
            $lock = null;
        });
        $child->receive('[false,false,false,false]');
        foreach (['refreshed', 'waited for'] as $what) {
            $this->assertMatchesRegularExpression('/\b'.getmypid().'\b/', $child->receive(), $what);
        }
        $child->end();
        $this->assertLessThan(3601, $this->holders()[0]->expiresIn);
        $this->assertTrue($lock->release());
    }

    public function testABlockWaitsForTheSecondsOfItsOwnProcess(): void
    {
        $first = $this->lock(0.3);
        $first->get();
        $second = $this->lock(3600);
        $this->assertTrue($second->block(60));
        $this->assertFalse($first->release());
        $this->assertTrue($second->release());
    }

    public function testAnIntervalIsKept(): void
    {
        $granted = array_map(fn () => $this->lock(3600)->get(), range(1, 4));
        $this->assertSame([true, false, false, false], $granted);
    }

    public function testTokensRise(): void
    {
        $last = 0;
        for ($i = 0; $i < 3; ++$i) {
            $lock = $this->lock(3600);
            $lock->get();
            $this->assertGreaterThan($last, $last = $lock->token());
            $lock->release();
            $this->assertNull($lock->token());
        }
    }

    public function testLocksThatAreNeverReleasedDoNotPileUp(): void
    {
        for ($i = 0; $i < 1000; ++$i) {
            $this->app()->store()->lock("{$this->name}-$i", 0.001)->get();
            usleep(100);
        }
        $all = array_filter(range(0, 999), fn (int $i): bool => [] !== $this->holders("-$i"));
        $this->assertLessThan(500, \count($all));
    }

    /** @dataProvider wrongSeconds */
    public function testWrongSecondsAreRefused(mixed $seconds): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage($this->name);
        $this->lock($seconds);
    }

    public static function wrongSeconds(): array
    {
        return [[-1], ['long'], [NAN], [INF], [null], [-INF], ['1e999'], [[]], [true], [new \DateTime()]];
    }

    private function assertRefreshThrows(string $owner, string $reason): void
    {
        try {
            $this->restored($owner)->refresh(5);
            $this->fail('The lock of another process was refreshed.');
        } catch (\RuntimeException $refused) {
            $this->assertStringContainsString($reason, $refused->getMessage());
            $this->assertStringContainsString($this->name, $refused->getMessage());
        }
    }

    private function restored(string $owner): Lock
    {
        return $this->app()->store()->restoreLock($this->name, $owner);
    }

    private function app(): Application
    {
        return Application::start();
    }

    private function lock(mixed $seconds, mixed $owner = null): Lock
    {
        $lock = $this->app()->store()->lock($this->name, $seconds, $owner);
        $this->assertInstanceOf(LockshmLock::class, $lock);

        return $lock;
    }

    private function key(string $more = ''): string
    {
        return 'app_'.$this->name.$more;
    }

    /** @return list<\Lockshm\Holder> */
    private function holders(string $more = ''): array
    {
        return Segment::open()->holders($this->key($more));
    }

    private function await(\Closure $condition): void
    {
        $until = hrtime(true) + 60_000_000_000;
        while (!$condition()) {
            $this->assertLessThan($until, hrtime(true), 'not within a minute');
            usleep(1000);
        }
    }

    /** A process that holds the lock, sends its owner, and releases it at "release". */
    private function holder(float $seconds, mixed $owner = null): Child
    {
        $holder = Child::run(function (Child $test) use ($seconds, $owner): void {
            $lock = $this->lock($seconds, $owner);
            $test->send(json_encode($lock->get()));
            $test->send((string) $lock->owner());
            while ('release' === $test->receive()) {
                $test->send(json_encode($lock->release()));
            }
        });
        $holder->receive('true');

        return $holder;
    }

    /** A process that waits for the lock without an end worth mentioning. */
    private function waiter(): Child
    {
        return Child::run(function (Child $test): void {
            $lock = $this->lock(3600);
            $test->send(json_encode($lock->block(3600)));
            $lock->release();
        });
    }

    /** Runs a whole request, and returns what it printed; %s is the name of the lock. */
    private function request(string $code, int $status = 0): string
    {
        $start = sprintf('$app = %s::start([], %s);', '\\'.Application::class, var_export(Segment::name(), true));

        return Script::run(__DIR__.'/bootstrap.php', $start.sprintf($code, var_export($this->name, true)), $status);
    }
}
