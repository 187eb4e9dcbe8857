<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\Tests;

use Illuminate\Contracts\Cache\LockTimeoutException;
use Lockshm\BridgeException;
use Lockshm\Locks;
use Lockshm\Testing\Child;
use Lockshm\Testing\Hosts;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;

/** Locks across two hosts. */
final class HostsTest extends TestCase
{
    protected function setUp(): void
    {
        Hosts::missing() && $this->markTestSkipped(Hosts::missing());
    }

    /** @return list<\Illuminate\Cache\Repository> the cache of each host */
    private static function hosts(): array
    {
        $of = static fn (Locks $locks) => ['driver' => 'lockshm', 'data' => 'array', 'segment' => $locks->name(), 'global' => true];
        [$a, $b] = Hosts::open();
        $app = Application::start(['a' => $of($a), 'b' => $of($b)]);

        return [$app->store('a'), $app->store('b')];
    }

    public function testALockOfOneHostIsRefusedOnTheOther(): void
    {
        [$a, $b] = self::hosts();
        $here = $a->lock('import', 300);
        $there = $b->lock('import', 300);
        $this->assertTrue($here->block(60));
        $this->assertFalse($there->get());
        try {
            $there->block(1);
            $this->fail('Two holds of one lock.');
        } catch (LockTimeoutException $late) {
            $this->assertStringContainsString('another host holds it: ', $late->getMessage());
        }
        $this->assertTrue($here->release());
        $this->assertTrue($there->block(60));
        $this->assertFalse($here->get());
        $this->assertTrue($there->release());
    }

    public function testAnOwnerReleasesInAnotherProcessOfItsHost(): void
    {
        [$a, $b] = self::hosts();
        $holder = Child::run(static function (Child $test) use ($a): void {
            $lock = $a->lock('job', 300);
            $lock->block(60);
            $test->send($lock->owner());
            $test->receive('end');
        });
        $owner = $holder->receive();
        $this->assertFalse($b->lock('job', 300)->get());
        $this->assertTrue($a->restoreLock('job', $owner)->release());
        $this->assertTrue($b->lock('job', 300)->block(60));
        $b->lock('job')->forceRelease();
        $holder->kill();
    }

    public function testWithoutABridgeTheErrorSaysSo(): void
    {
        $bare = Locks::open(Segment::name('bare'), ['redis' => getenv('REDIS_URI')]);
        $app = Application::start(['bare' => ['driver' => 'lockshm', 'data' => 'array', 'segment' => $bare->name(), 'global' => true]]);
        $this->expectException(BridgeException::class);
        $this->expectExceptionMessage('no bridge to Redis runs: start one with');
        $app->store('bare')->lock('key')->get();
    }
}
