<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\Tests;

use Illuminate\Bus\Queueable;
use Illuminate\Bus\UniqueLock;
use Illuminate\Cache\ArrayStore;
use Illuminate\Cache\FileStore;
use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\Repository;
use Illuminate\Console\Scheduling\CacheEventMutex;
use Illuminate\Console\Scheduling\Event;
use Illuminate\Contracts\Cache\Store;
use Illuminate\Filesystem\Filesystem;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use InvalidArgumentException;
use Lockshm\Laravel\LockshmStore;
use Lockshm\Testing\Child;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;

/** The store between Laravel and the store with the data. */
final class StoreTest extends TestCase
{
    private Application $app;

    protected function setUp(): void
    {
        $this->app = Application::start();
    }

    public function testDataAreInTheOtherStore(): void
    {
        $cache = $this->app->store();
        $data = $this->app->store('array');
        $cache->put('one', 1, 60);
        $cache->forever('two', 2);
        $cache->putMany(['three' => 3, 'four' => 4], 60);
        $cache->increment('one', 10);
        $cache->decrement('two');
        $this->assertSame([11, 1, 3, 4], array_map([$data, 'get'], ['one', 'two', 'three', 'four']));
        $this->assertSame(['one' => 11, 'none' => null], $cache->many(['one', 'none']));
        $cache->forget('one');
        $this->assertNull($data->get('one'));
        $this->assertFalse($cache->add('two', 'again', 60));
        $this->assertTrue($cache->add('five', 5, 60));
        $this->assertSame(5, $data->get('five'));
        $this->assertSame($data->getStore()->getPrefix(), $cache->getStore()->getPrefix());
        $cache->flush();
        $this->assertNull($data->get('two'));
    }

    public function testTouch(): void
    {
        if (!method_exists(ArrayStore::class, 'touch')) {
            $this->markTestSkipped('this Laravel has no touch()');
        }
        $cache = $this->app->store();
        $cache->put('key', 1, 60);
        $this->assertTrue($cache->touch('key', 3600));
    }

    public function testTagsAreThoseOfTheOtherStore(): void
    {
        $cache = $this->app->store();
        $cache->tags(['red'])->put('key', 'tagged', 60);
        $this->assertSame('tagged', $this->app->store('array')->tags('red')->get('key'));
        $this->assertNull($cache->get('key'));
    }

    public function testWithoutTagsThereAreNone(): void
    {
        $this->assertFalse(method_exists(LockshmStore::over($this->fileStore(), Segment::open()), 'tags'));
    }

    public function testAddIsAtomicOverAStoreThatHasNoAdd(): void
    {
        $data = new class implements Store {
            private array $values = [];

            public function get($key) { return $this->values[$key] ?? null; }
            public function many(array $keys) { return []; }
            public function put($key, $value, $seconds) { $this->values[$key] = $value; return true; }
            public function putMany(array $values, $seconds) { return false; }
            public function increment($key, $value = 1) { return false; }
            public function decrement($key, $value = 1) { return false; }
            public function forever($key, $value) { return false; }
            public function touch($key, $seconds) { return false; }
            public function forget($key) { return false; }
            public function flush() { return false; }
            public function getPrefix() { return ''; }
        };
        $store = LockshmStore::over($data, Segment::open());
        $hold = Segment::open()->shared('add:other');
        $this->assertTrue($store->add('key', 1, 60));
        $this->assertFalse($store->add('key', 2, 60));
        $this->assertSame(1, $store->get('key'));
        $this->assertFalse(Segment::open()->isLocked('add:key'));
    }

    public function testOtherMethodsAreThoseOfTheOtherStore(): void
    {
        $store = LockshmStore::over($this->fileStore(), Segment::open());
        $this->assertInstanceOf(Filesystem::class, $store->getFilesystem());
    }

    public function testEmptyingTheCacheFreesNoLock(): void
    {
        $cache = $this->app->store();
        $cache->lock('kept', 3600)->get();
        $cache->flush();
        $this->assertFalse($cache->lock('kept', 3600)->get());
        $cache->lock('kept')->forceRelease();
    }

    public function testNamesHaveThePrefixOfTheApplication(): void
    {
        $this->app->store()->lock('name', 3600)->get();
        $this->assertTrue(Segment::open()->isLocked('app_name'));
        $this->app->store()->lock('name')->forceRelease();
    }

    /** @dataProvider wrongConfigurations */
    public function testAWrongConfigurationIsNamed(array $config): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage("'data'");
        Application::start(['wrong' => $config + ['driver' => 'lockshm']])->store('wrong');
    }

    public static function wrongConfigurations(): array
    {
        return [[[]], [['data' => 'lockshm']], [['data' => 'wrong']], [['data' => 7]]];
    }

    public function testAnUnknownKeyOfTheConfigurationIsNamed(): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage('[segmnt]');
        Application::start(['wrong' => ['driver' => 'lockshm', 'data' => 'array', 'segmnt' => 'shop']])->store('wrong');
    }

    public function testKeysOfEveryStoreAreAccepted(): void
    {
        $config = ['driver' => 'lockshm', 'data' => 'array', 'segment' => Segment::name(), 'prefix' => '', 'events' => false];
        $this->assertTrue(Application::start(['right' => $config])->store('right')->lock('right', 3600)->get());
    }

    public function testRateLimiter(): void
    {
        $limiter = new RateLimiter($this->app->store());
        $limiter->hit('key', 60);
        $this->assertTrue($limiter->tooManyAttempts('key', 1));
    }

    public function testAJobDoesNotOverlapItself(): void
    {
        $job = new class {
            public ?int $released = null;

            public function release($delay): void
            {
                $this->released = $delay;
            }
        };
        $worker = Child::run(static function (Child $test) use ($job): void {
            (new WithoutOverlapping('job'))->handle($job, static function () use ($test): void {
                $test->send('runs');
                $test->receive('end');
            });
        });
        $worker->receive('runs');
        (new WithoutOverlapping('job'))->releaseAfter(7)->handle($job, function (): void {
            $this->fail('Two jobs overlap.');
        });
        $this->assertSame(7, $job->released);
        $worker->kill();
        $ran = false;
        (new WithoutOverlapping('job'))->handle($job, static function () use (&$ran): void {
            $ran = true;
        });
        $this->assertTrue($ran);
    }

    public function testAUniqueJobIsDispatchedOnce(): void
    {
        $job = new class {
            public int $uniqueFor = 3600;
        };
        $unique = new UniqueLock($this->app->store());
        $this->assertTrue($unique->acquire($job));
        $this->assertFalse($unique->acquire($job));
    }

    public function testAWorkerReleasesTheLockOfAUniqueJob(): void
    {
        if (!property_exists(Queueable::class, 'uniqueLockOwner')) {
            $this->markTestSkipped('this Laravel releases by force');
        }
        $job = static fn () => new class {
            use Queueable;

            public int $uniqueFor = 3600;

            public function uniqueId(): string
            {
                return 'worker';
            }
        };
        $request = Child::run(function (Child $test) use ($job): void {
            $dispatched = $job();
            (new UniqueLock($this->app->store()))->acquire($dispatched);
            $test->send($dispatched->uniqueLockOwner);
            $test->receive('end');
        });
        $unique = new UniqueLock($this->app->store());
        $taken = $job();
        $taken->uniqueLockOwner = $request->receive();
        $this->assertFalse($unique->acquire($job()));
        $unique->release($taken);
        $this->assertTrue($unique->acquire($job()));
        $request->kill();
    }

    public function testAScheduledEventDoesNotOverlapItself(): void
    {
        if (!class_exists(Event::class) || !method_exists(CacheEventMutex::class, 'shouldUseLocks')) {
            $this->markTestSkipped('this Laravel keeps its event mutex as data of the cache');
        }
        $mutex = new CacheEventMutex($this->app['cache']);
        $event = new Event($mutex, 'true');
        $this->assertTrue($mutex->create($event));
        $this->assertFalse($mutex->create($event));
        $this->assertTrue($mutex->exists($event));
        $mutex->forget($event);
        $this->assertFalse($mutex->exists($event));
        $this->assertTrue($mutex->create($event));
    }

    public function testWithoutOverlappingAndFunnelOfTheRepository(): void
    {
        $cache = $this->app->store();
        if (!method_exists(Repository::class, 'funnel')) {
            $this->markTestSkipped('this Laravel has no funnel()');
        }
        $this->assertSame(7, $cache->withoutOverlapping('once', static fn () => 7));
        $this->assertSame('run', $this->funnel($cache));
        $inside = $cache->funnel('few')->limit(1)->releaseAfter(3600)->block(0)->then(fn () => $this->funnel($cache));
        $this->assertSame('full', $inside);
        $this->assertSame('run', $this->funnel($cache));
    }

    private function funnel(Repository $cache): string
    {
        return $cache->funnel('few')->limit(1)->releaseAfter(3600)->block(0)
            ->then(static fn () => 'run', static fn () => 'full');
    }

    private function fileStore(): FileStore
    {
        return new FileStore($this->app['files'], sys_get_temp_dir());
    }
}
