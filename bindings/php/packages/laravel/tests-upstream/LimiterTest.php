<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\TestsUpstream;

use Illuminate\Cache\ArrayStore;
use Illuminate\Cache\Repository;
use Illuminate\Tests\Cache\ConcurrencyLimiterTest;
use Lockshm\Laravel\LockshmStore;
use Lockshm\Testing\Segment;

/** Laravel's own tests of the concurrency limiter. */
final class LimiterTest extends ConcurrencyLimiterTest
{
    protected function setUp(): void
    {
        $this->repository = new Repository(LockshmStore::over(new ArrayStore(), Segment::open(), $this->getName()));
    }
}
