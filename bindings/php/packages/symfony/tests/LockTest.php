<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\Tests;

use Lockshm\DeadlockException;
use Lockshm\Symfony\LockshmStore;
use Lockshm\Testing\Child;
use Lockshm\Testing\Script;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Exception\UnserializableKeyException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Strategy\UnanimousStrategy;

/** What a user of LockFactory sees. */
final class LockTest extends TestCase
{
    private string $resource;

    protected function setUp(): void
    {
        $this->resource = uniqid($this->getName().'-', true);
    }

    public function testOneOfTwoLocksIsAcquired(): void
    {
        $one = $this->lock();
        $two = $this->lock();
        $this->assertTrue($one->acquire());
        $this->assertFalse($two->acquire());
        $this->assertTrue($one->isAcquired());
        $this->assertFalse($two->isAcquired());
        $one->release();
        $this->assertFalse($one->isAcquired());
        $this->assertTrue($two->acquire());
    }

    public function testTheEndOfALockObjectReleases(): void
    {
        $this->lock()->acquire();
        $this->assertTrue($this->lock()->acquire());
    }

    public function testReadersShareAndExcludeAWriter(): void
    {
        $one = $this->lock();
        $two = $this->lock();
        $writer = $this->lock();
        $this->assertTrue($one->acquireRead());
        $this->assertTrue($two->acquireRead(true));
        $this->assertFalse($writer->acquire());
        $one->release();
        $two->release();
        $this->assertTrue($writer->acquire());
        $this->assertFalse($one->acquireRead());
    }

    public function testTheOnlyReaderBecomesWriter(): void
    {
        $lock = $this->lock();
        $other = $this->lock();
        $lock->acquireRead();
        $this->assertTrue($lock->acquire());
        $this->assertFalse($other->acquireRead());
    }

    public function testOneOfTwoReadersStaysReader(): void
    {
        $lock = $this->lock();
        $other = $this->lock();
        $lock->acquireRead();
        $other->acquireRead();
        $this->assertFalse($lock->acquire());
        $this->assertTrue($lock->isAcquired());
    }

    public function testAReaderWaitsUntilItIsTheWriter(): void
    {
        $reader = Child::run(function (Child $test): void {
            $lock = $this->lock();
            $lock->acquireRead();
            $test->send('reads');
            $test->receive('end');
            $lock->release();
        });
        $reader->receive('reads');
        $writer = Child::run(function (Child $test): void {
            $lock = $this->lock();
            $lock->acquireRead();
            $test->send($lock->acquire(true) ? 'writes' : 'refused');
            $test->receive('end');
        });
        $writer->awaitWaiting(Segment::name(), $this->resource);
        $reader->send('end');
        $writer->receive('writes');
        $this->assertFalse($this->lock()->acquireRead());
        $writer->send('end');
        $writer->end();
        $reader->end();
    }

    public function testAWriterBecomesReader(): void
    {
        $lock = $this->lock();
        $other = $this->lock();
        $lock->acquire();
        $this->assertTrue($lock->acquireRead());
        $this->assertTrue($other->acquireRead());
        $this->assertTrue($lock->isAcquired());
    }

    public function testALockEndsAfterItsTtlIfAnotherRequestWantsIt(): void
    {
        $lock = $this->acquiredFor(0.2);
        $this->assertLessThanOrEqual(0.2, $lock->getRemainingLifetime());
        $other = Child::run(function (Child $test): void {
            $lock = $this->lock();
            $test->send($lock->acquire(true) ? 'acquired' : 'refused');
            $test->receive('end');
        });
        $other->receive('acquired');
        $this->assertFalse($lock->isAcquired());
        $this->assertTrue($lock->isExpired());
        try {
            $lock->refresh();
            $this->fail('A lost lock was refreshed.');
        } catch (LockConflictedException $lost) {
            $this->assertStringContainsString($this->resource, $lost->getMessage());
        }
        $lock->release();
        $this->assertFalse($this->lock()->acquire(), 'release() of the lost lock ended the hold of the other process');
        $other->send('end');
        $other->end();
    }

    public function testARefreshAfterTheTtlKeepsALockThatIsNotWanted(): void
    {
        $lock = $this->acquiredFor(0.05);
        $until = hrtime(true) + 60_000_000_000;
        while ($lock->isAcquired()) {
            $this->assertLessThan($until, hrtime(true), 'no end of the TTL within a minute');
            usleep(10000);
        }
        $lock->refresh(3600);
        $this->assertTrue($lock->isAcquired());
        $this->assertFalse($this->lock()->acquire());
    }

    public function testALockWithoutTtlHasNoEnd(): void
    {
        foreach (['acquire', 'acquireRead'] as $acquire) {
            $lock = $this->lock(null);
            $lock->$acquire();
            $this->assertNull($lock->getRemainingLifetime());
            [$holder] = Segment::open()->holders($this->resource);
            $this->assertNull($holder->expiresIn);
            $lock->release();
        }
    }

    public function testATtlIsNotKeptByTheNextAcquireOfTheKey(): void
    {
        $key = new Key($this->resource);
        $store = $this->store();
        (new LockFactory($store))->createLockFromKey($key, 60, false)->acquire();
        (new LockFactory($store))->createLockFromKey($key, null, false)->acquire();
        [$holder] = Segment::open()->holders($this->resource);
        $this->assertNull($holder->expiresIn);
    }

    public function testTheMaximumWaitEndsWithTheHolderInTheMessage(): void
    {
        $holder = $this->holder();
        try {
            $this->lock(wait: 0.05)->acquire(true);
            $this->fail('Two locks of one resource are held.');
        } catch (LockConflictedException $timeout) {
            $this->assertStringContainsString((string) $holder->pid, $timeout->getMessage());
        }
        $holder->kill();
    }

    public function testAWaiterIsGrantedWhenTheHolderIsKilled(): void
    {
        $holder = $this->holder();
        $waiter = $this->waiter();
        $waiter->awaitWaiting(Segment::name(), $this->resource);
        $holder->kill();
        $waiter->receive('acquired');
        $waiter->receive();
        $waiter->end();
        $this->assertTrue($this->lock()->acquire());
    }

    public function testWaitersAreGrantedInTheOrderOfTheirCalls(): void
    {
        $holder = $this->holder();
        $waiters = [];
        for ($i = 0; $i < 5; ++$i) {
            $waiters[$i] = $this->waiter();
            $waiters[$i]->awaitWaiting(Segment::name(), $this->resource);
        }
        $holder->send('end');
        $tokens = [];
        foreach ($waiters as $waiter) {
            $waiter->receive('acquired');
            $tokens[] = (int) $waiter->receive();
            $waiter->end();
        }
        $sorted = $tokens;
        sort($sorted);
        $this->assertSame($sorted, $tokens);
        $holder->end();
    }

    public function testAWaitForALockOfTheSameProcessIsADeadlock(): void
    {
        $lock = $this->lock();
        $lock->acquire();
        try {
            $this->lock()->acquire(true);
            $this->fail('A lock was acquired twice.');
        } catch (LockAcquiringException $deadlock) {
            $this->assertInstanceOf(DeadlockException::class, $deadlock->getPrevious());
        }
        $this->assertTrue($lock->isAcquired());
    }

    public function testTheKeyOfAHeldLockIsNotSerialised(): void
    {
        $key = new Key($this->resource);
        (new LockFactory($this->store()))->createLockFromKey($key)->acquire();
        $this->expectException(UnserializableKeyException::class);
        serialize($key);
    }

    public function testAForkedChildHoldsNothingAndIsToldWhy(): void
    {
        $lock = $this->lock();
        $lock->acquire();
        $child = Child::run(function (Child $test) use ($lock): void {
            $test->send($lock->isAcquired() ? 'held' : 'not held');
            foreach ([null, 60.0] as $ttl) {
                try {
                    $lock->refresh($ttl);
                } catch (LockConflictedException $refused) {
                    $test->send(str_replace($this->resource, 'NAME', $refused->getMessage()));
                }
            }
            $lock->release();
            $test->send($lock->acquire() ? 'held' : 'refused');
            $lock = null;
        });
        $child->receive('not held');
        for ($i = 0; $i < 2; ++$i) {
            $this->assertStringContainsString('a hold of the parent process', $child->receive());
        }
        $child->receive('refused');
        $child->end();
        $this->assertTrue($lock->isAcquired());
        $this->assertEqualsWithDelta(3600, Segment::open()->holders($this->resource)[0]->expiresIn, 1800);
    }

    /** @dataProvider endsOfAProgram */
    public function testALockThatIsNotReleasedHasItsTtlAfterItsProgram(?float $ttl, bool $autoRelease, string $end, bool $stays): void
    {
        $held = Script::run(__DIR__.'/bootstrap.php', sprintf(
            '$lock = (new Symfony\Component\Lock\LockFactory(new Lockshm\Symfony\LockshmStore(%s)))->createLock(%s, %s, %s);'
                .'echo $lock->acquire() ? "held" : "refused"; ini_set("display_errors", "0"); %s',
            var_export(Segment::name(), true),
            var_export($this->resource, true),
            var_export($ttl, true),
            var_export($autoRelease, true),
            self::ENDS[$end]
        ), 'fatal' === $end ? 255 : 0);
        $this->assertSame('held', $held);
        $this->assertSame(!$stays, $this->lock()->acquire());
    }

    private const ENDS = [
        'return' => '',
        'exit' => 'exit;',
        'cycle' => '$cycle = (object) ["lock" => $lock]; $cycle->itself = $cycle;',
        'static' => 'final class Registry { public static $it; } Registry::$it = $lock;',
        'unset' => 'unset($lock);',
        'fatal' => 'class Broken implements Iterator {}',
    ];

    public static function endsOfAProgram(): iterable
    {
        foreach (array_keys(self::ENDS) as $end) {
            yield "$end, a TTL, not released" => [300.0, false, $end, 'fatal' !== $end];
            yield "$end, a TTL, released by its object" => [300.0, true, $end, false];
            yield "$end, no TTL" => [null, false, $end, false];
        }
    }

    public function testAnIntervalIsKeptThoughNoVariableHasTheLock(): void
    {
        $granted = [];
        for ($i = 0; $i < 4; ++$i) {
            $granted[] = $this->factory()->createLock($this->resource, 300, false)->acquire();
        }
        $this->assertSame([true, false, false, false], $granted);
        $this->assertSame('cooling', Segment::open()->holders($this->resource)[0]->state);
    }

    public function testABlockingAcquireWaitsForTheEndOfAnInterval(): void
    {
        $this->factory()->createLock($this->resource, 0.3, false)->acquire();
        $this->assertTrue($this->lock(wait: 60)->acquire(true));
    }

    public function testARefusedPromotionKeepsTheTtlOfTheReader(): void
    {
        $lock = $this->lock();
        $other = $this->lock();
        $lock->acquireRead();
        $other->acquireRead();
        $this->assertFalse($lock->acquire());
        $this->assertNotNull(Segment::open()->holders($this->resource)[0]->expiresIn);
        $this->assertTrue($lock->isAcquired());
    }

    public function testStoresOfTwoSegmentsAreCombined(): void
    {
        $store = new CombinedStore([$this->store(), new LockshmStore(Segment::name('second'))], new UnanimousStrategy());
        $lock = (new LockFactory($store))->createLock($this->resource);
        $this->assertTrue($lock->acquire());
        $this->assertTrue(Segment::open()->isLocked($this->resource));
        $this->assertTrue(Segment::open('second')->isLocked($this->resource));
        $lock->release();
        $this->assertFalse(Segment::open()->isLocked($this->resource));
        $this->assertFalse(Segment::open('second')->isLocked($this->resource));
    }

    public function testOneResourceIsAnotherInAnotherSegment(): void
    {
        $lock = $this->lock();
        $lock->acquire();
        $other = (new LockFactory(new LockshmStore(Segment::open('second'))))->createLock($this->resource);
        $this->assertTrue($other->acquire());
    }

    /** @dataProvider wrongWaits */
    public function testAWrongWaitIsRefused(float $wait): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage('wait');
        new LockshmStore(Segment::name(), $wait);
    }

    public static function wrongWaits(): array
    {
        return [[-1.0], [\NAN]];
    }

    private function store(?float $wait = null): LockshmStore
    {
        return new LockshmStore(Segment::name(), $wait);
    }

    private function factory(): LockFactory
    {
        return new LockFactory($this->store());
    }

    private function lock(?float $ttl = 3600.0, ?float $wait = null): LockInterface
    {
        return (new LockFactory($this->store($wait)))->createLock($this->resource, $ttl);
    }

    /** A lock with a short TTL; it is tried again where the machine stood still for longer, as Symfony refuses it then. */
    private function acquiredFor(float $ttl): LockInterface
    {
        for ($i = 0; ; ++$i) {
            $lock = $this->lock($ttl);
            try {
                $this->assertTrue($lock->acquire());

                return $lock;
            } catch (LockExpiredException $late) {
                if (10 === $i) {
                    throw $late;
                }
            }
        }
    }

    /** A process that holds the lock until "end". */
    private function holder(): Child
    {
        $holder = Child::run(function (Child $test): void {
            $lock = $this->lock();
            $lock->acquire();
            $test->send('held');
            $test->receive('end');
            $lock->release();
        });
        $holder->receive('held');

        return $holder;
    }

    /** A process that waits for the lock, and sends "acquired" and its token. */
    private function waiter(): Child
    {
        return Child::run(function (Child $test): void {
            $lock = $this->lock();
            $test->send($lock->acquire(true) ? 'acquired' : 'refused');
            $test->send((string) Segment::open()->holders($this->resource)[0]->token);
            $lock->release();
        });
    }
}
