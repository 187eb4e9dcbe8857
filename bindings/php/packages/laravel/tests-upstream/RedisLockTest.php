<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\TestsUpstream;

use Illuminate\Tests\Integration\Cache\RedisCacheLockTest;
use Orchestra\Testbench\TestCase;

/** Laravel's own tests of the locks of its store "redis", which is ours here. */
final class RedisLockTest extends RedisCacheLockTest
{
    protected function setUp(): void
    {
        TestCase::setUp();
    }

    protected function tearDown(): void
    {
        TestCase::tearDown();
    }

    public function testRedisLockCanHaveASeparateConnection(): void
    {
        $this->markTestSkipped('the name of a connection to Redis; a lock of a segment has none');
    }
}
