<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\Tests;

use Lockshm\BridgeException;
use Lockshm\Locks;
use Lockshm\Symfony\LockshmStore;
use Lockshm\Symfony\StoreFactory;
use Lockshm\Testing\Hosts;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\LockFactory;

/** Locks across two hosts. */
final class HostsTest extends TestCase
{
    protected function setUp(): void
    {
        Hosts::missing() && $this->markTestSkipped(Hosts::missing());
    }

    public function testALockOfOneHostIsRefusedOnTheOther(): void
    {
        [$a, $b] = Hosts::open();
        $here = (new LockFactory(new LockshmStore($a, global: true)))->createLock('invoice', ttl: 300);
        $there = (new LockFactory(StoreFactory::createStore('lockshm://'.$b->name().'?wait=60&global=1')))->createLock('invoice', ttl: 300);
        $this->assertTrue($here->acquire(true));
        $this->assertFalse($there->acquire());
        $here->refresh(600);
        $here->release();
        $this->assertTrue($there->acquire(true));
        $this->assertFalse($here->acquire());
        $there->release();
    }

    public function testAnIntervalIsKeptOnBothHosts(): void
    {
        [$a, $b] = array_map(static fn ($locks) => new LockFactory(new LockshmStore($locks, 60, true)), Hosts::open());
        foreach (['interval', str_repeat('n', 1000)] as $resource) {
            $this->assertTrue($a->createLock($resource, 300, false)->acquire(true));
            $this->assertFalse($a->createLock($resource)->acquire());
            $this->assertFalse($b->createLock($resource)->acquire());
        }
    }

    public function testAKeyThatTheSegmentMakesGlobalNeedsNoOption(): void
    {
        [$a, $b] = array_map(static fn ($locks) => (new LockFactory(new LockshmStore($locks, 60)))->createLock('seg:invoice'), Hosts::open());
        $this->assertTrue($a->acquire());
        $this->assertFalse($b->acquire());
        $a->release();
        $this->assertTrue($b->acquire(true));
    }

    public function testAConflictNamesTheOtherHost(): void
    {
        [$a, $b] = Hosts::open();
        $hold = $a->exclusive('report', 60, global: true);
        $this->expectException(LockConflictedException::class);
        $this->expectExceptionMessageMatches('/another host holds it: /');
        (new LockFactory(new LockshmStore($b, wait: 0.2, global: true)))->createLock('report')->acquire(true);
    }

    public function testReadersOfTwoHostsShareAndAWriterWaits(): void
    {
        [$a, $b] = Hosts::open();
        $readers = array_map(static fn ($locks) => (new LockFactory(new LockshmStore($locks, 60, true)))->createLock('prices'), [$a, $b]);
        $this->assertTrue($readers[0]->acquireRead(true));
        $this->assertTrue($readers[1]->acquireRead(true));
        $this->assertFalse($readers[0]->acquire());
        $readers[1]->release();
        $this->assertTrue($readers[0]->acquire(true));
    }

    public function testWithoutABridgeTheErrorSaysSo(): void
    {
        $bare = Locks::open(Segment::name('bare'), ['redis' => getenv('REDIS_URI')]);
        try {
            (new LockFactory(new LockshmStore($bare, global: true)))->createLock('key')->acquire();
            $this->fail('A lock without a bridge.');
        } catch (LockAcquiringException $failure) {
            $this->assertInstanceOf(BridgeException::class, $failure->getPrevious());
            $this->assertStringContainsString('no bridge to Redis runs: start one with', $failure->getPrevious()->getMessage());
        }
    }
}
