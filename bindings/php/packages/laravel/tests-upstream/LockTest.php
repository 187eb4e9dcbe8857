<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\TestsUpstream;

use Illuminate\Support\Sleep;
use Illuminate\Tests\Integration\Cache\FileCacheLockTest;

/** Laravel's own tests of the locks of a store. */
final class LockTest extends FileCacheLockTest
{
    public function testConcurrentLocksAreReleasedSafely(): void
    {
        if (class_exists(Sleep::class)) {
            $this->markTestSkipped('its seconds pass on a clock of its own; testALockEndsAfterItsSeconds is for the real one');
        }
        parent::testConcurrentLocksAreReleasedSafely();
    }
}
