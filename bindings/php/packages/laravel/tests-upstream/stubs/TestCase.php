<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Orchestra\Testbench;

use Illuminate\Support\Facades\Facade;
use Illuminate\Support\Sleep;
use Lockshm\Laravel\Tests\Application;
use Lockshm\Testing\Segment;

/** As much of Testbench as Laravel's tests of locks use: an application whose cache stores lock in a segment. */
abstract class TestCase extends \PHPUnit\Framework\TestCase
{
    protected function setUp(): void
    {
        $store = ['driver' => 'lockshm', 'data' => 'array', 'segment' => Segment::name()];
        $app = Application::start(['file' => $store, 'redis' => $store, 'memcached' => $store]);
        $app['config']['cache.default'] = 'file';
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
    }

    protected function tearDown(): void
    {
        if (class_exists(Sleep::class)) {
            Sleep::fake(false);
        }
    }
}
