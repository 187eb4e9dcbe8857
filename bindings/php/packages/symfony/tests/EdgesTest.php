<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\Tests;

use Lockshm\Symfony\LockshmStore;
use Lockshm\Testing\Edges;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\Exception\ExceptionInterface;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\FlockStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Store\SemaphoreStore;

/**
 * Edge values, each called on stores of Symfony and on ours.  Where ours differs on purpose the row has what it does, and why.
 */
final class EdgesTest extends TestCase
{
    public static function tearDownAfterClass(): void
    {
        array_map('unlink', glob(self::folder().'/*'));
        is_dir(self::folder()) && rmdir(self::folder());
    }

    private static function folder(): string
    {
        return sys_get_temp_dir().'/'.Segment::name();
    }

    /**
     * @param list<string> $originals
     * @param \Closure     $call      gets a factory, the name of a resource, the store
     *
     * @dataProvider rows
     */
    public function testAsTheOriginal(array $originals, \Closure $call, ?string $ours = null, string $reason = ''): void
    {
        $result = $this->outcome(new LockshmStore(Segment::name()), $call);
        $compared = 0;
        foreach ($originals as $original) {
            if ($store = self::original($original)) {
                $expected = $this->outcome($store, $call);
                null === $ours
                    ? $this->assertSame($expected, $result, $original)
                    : $this->assertNotSame($expected, $result, "$original: the row needs no reason");
                ++$compared;
            }
        }
        if (null !== $ours) {
            $this->assertSame($ours, $result, $reason);
            $this->assertNotSame('', $reason);
        }
        if (str_starts_with($result, 'throws ')) {
            $this->assertTrue(is_a(substr($result, 7), ExceptionInterface::class, true), "$result is not Symfony's");
        }
        $compared || $this->markTestSkipped('none of '.implode(', ', $originals).' is here');
    }

    public static function rows(): iterable
    {
        $acquire = static fn (LockInterface $lock) => [$lock->acquire(), $lock->isAcquired(), $lock->isExpired(), null === $lock->getRemainingLifetime()];
        $all = ['redis', 'flock', 'semaphore'];
        $names = [
            'empty' => '',
            'a null byte' => "a\0b",
            'of 641 bytes' => str_repeat('n', 641),
            'of 100000 bytes' => str_repeat('n', 100000),
            'of bytes that are no UTF-8' => "\xff\xfe",
            'a number' => '0',
            'of spaces' => ' ',
            'a path' => '../../x',
        ];
        foreach ($names as $what => $name) {
            yield "name: $what" => [['redis', 'flock'], static function ($factory) use ($name) {
                $lock = $factory->createLock($name);
                $result = [$lock->acquire(), $factory->createLock($name)->acquire(), $factory->createLock($name.'x')->acquire()];
                $lock->release();

                return [...$result, $lock->isAcquired(), $factory->createLock($name)->acquire()];
            }];
        }
        yield 'name: two that differ after a null byte, and after 640 bytes' => [['redis', 'flock'],
            static fn ($factory, $r) => [
            ($a = $factory->createLock("$r\0a"))->acquire(), ($b = $factory->createLock("$r\0b"))->acquire(),
            ($c = $factory->createLock($r.str_repeat('n', 640).'a'))->acquire(), ($d = $factory->createLock($r.str_repeat('n', 640).'b'))->acquire(),
        ]];

        yield 'ttl: 0 is none' => [['flock'], static fn ($factory, $r) => $acquire($factory->createLock($r, 0.0))];
        yield 'ttl: null is none' => [['flock'], static fn ($factory, $r) => $acquire($factory->createLock($r, null))];
        foreach (['-1' => -1.0, '-0.5' => -0.5, '-INF' => -\INF, '300.5' => 300.5, '1e9' => 1e9, '1e12' => 1e12] as $what => $ttl) {
            yield "ttl: $what" => [['redis'], static fn ($factory, $r) => $acquire($factory->createLock($r, $ttl))];
            yield "refresh: $what" => [['redis'], static function ($factory, $r) use ($ttl) {
                $lock = $factory->createLock($r, 300);

                return [$lock->acquire(), Edges::outcome(static fn () => $lock->refresh($ttl)), $lock->isAcquired(), $factory->createLock($r)->acquire()];
            }];
            yield "putOffExpiration(): $what" => [['redis'], static function ($factory, $r, $store) use ($ttl) {
                $store->save($key = new Key($r));

                return [Edges::outcome(static fn () => $store->putOffExpiration($key, $ttl)), $store->exists($key), $key->isExpired()];
            }];
        }
        foreach (['INF' => \INF, '1e300' => 1e300] as $what => $ttl) {
            yield "ttl: $what" => [['redis'],
                static fn ($factory, $r) => $acquire($factory->createLock($r, $ttl)),
                '[true,true,false,false]', 'RedisStore cannot store it; here it is ten years',
            ];
        }
        yield 'ttl: NAN' => [['redis'],
            static fn ($factory, $r) => Edges::outcome(static fn () => $acquire($factory->createLock($r, \NAN))),
            json_encode('throws '.LockAcquiringException::class), 'RedisStore acquires it, and it is not acquired',
        ];
        yield 'refresh: 0 or nothing, without a ttl' => [$all, static function ($factory, $r) {
            $lock = $factory->createLock($r, null);

            return [$lock->acquire(), Edges::outcome(static fn () => $lock->refresh()), Edges::outcome(static fn () => $lock->refresh(0)), $lock->isAcquired()];
        }];
        yield 'refresh: nothing, with a ttl' => [['redis'],
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r, 300))->acquire(), $lock->refresh(), $lock->isAcquired(),
            ],
        ];
        yield 'refresh: never acquired' => [['redis'],
            static fn ($factory, $r) => $factory->createLock($r, 300)->refresh(),
        ];
        yield 'refresh: released' => [['redis'],
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r, 300))->acquire(), $lock->release(),
                Edges::outcome(static fn () => $lock->refresh()),
            ],
        ];
        yield 'refresh: its ttl has run out' => [['redis'], static function ($factory, $r) {
            $lock = self::acquired($factory, $r, 0.3);
            Edges::await(static fn () => !$lock->isAcquired());

            return [$lock->isExpired(), Edges::outcome(static fn () => $lock->refresh(300)), $lock->isAcquired()];
        }, '[true,"null",true]', 'no other request has taken it: what it protects was not touched in between'];
        yield 'refresh: its ttl has run out, and another has it' => [['redis'], static function ($factory, $r) {
            $lock = self::acquired($factory, $r, 0.3);
            Edges::await(static fn () => !$lock->isAcquired());
            $other = $factory->createLock($r, 300);

            return [$other->acquire(), Edges::outcome(static fn () => $lock->refresh(300)), $lock->isAcquired(), $lock->release(), $other->isAcquired()];
        }];

        yield 'an interval: never released, ttl' => [['redis'],
            static fn ($factory, $r) => array_map(static fn () => $factory->createLock($r, 300, false)->acquire(), range(1, 4)),
        ];
        yield 'autoRelease: released by its object' => [$all,
            static fn ($factory, $r) => array_map(static fn () => $factory->createLock($r, 300)->acquire(), range(1, 4)),
        ];
        yield 'autoRelease: false, no ttl' => [['flock', 'semaphore'],
            static fn ($factory, $r) => array_map(static fn () => $factory->createLock($r, null, false)->acquire(), range(1, 4)),
        ];
        yield 'autoRelease: false, ttl, a reader' => [['flock'],
            static fn ($factory, $r) => array_map(static fn () => $factory->createLock($r, 300, false)->acquireRead(), range(1, 4)),
        ];

        yield 'release: never acquired, and twice' => [$all,
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r))->release(), $lock->acquire(), $lock->release(), $lock->release(),
                $lock->isAcquired(),
            ],
        ];
        yield 'state: never acquired' => [$all,
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r))->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime(),
            ],
        ];
        yield 'state: of another lock object' => [$all,
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r))->acquire(), $factory->createLock($r)->isAcquired(),
                $factory->createLock($r)->release(), $lock->isAcquired(),
            ],
        ];
        yield 'acquire: twice' => [$all,
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r))->acquire(), $lock->acquire(), $lock->acquire(true),
                $lock->release(), $lock->isAcquired(),
            ],
        ];
        yield 'acquire: of two objects of one Key' => [$all, static function ($factory, $r, $store) {
            $lock = static fn (Key $key) => new \Symfony\Component\Lock\Lock($key, $store, 300, false);
            $key = new Key($r);

            return [($one = $lock($key))->acquire(), ($two = $lock($key))->acquire(), $two->release(), $one->isAcquired(), $one->acquire(), $two->isAcquired()];
        }];
        yield 'acquire: a Key again after its release' => [$all,
            static fn ($factory, $r) => [
                ($lock = $factory->createLock($r))->acquire(), $lock->release(), $lock->acquire(),
                $lock->isAcquired(),
            ],
        ];

        yield 'key: serialised before it is acquired' => [$all,
            static fn ($factory, $r) => (string) unserialize(serialize(new Key($r))) === $r,
        ];
        yield 'key: serialised while it is held, and afterwards' => [['flock', 'semaphore'],
            static function ($factory, $r, $store) {
            $store->save($key = new Key($r));
            $held = Edges::outcome(static fn () => serialize($key));
            $store->delete($key);

            return [$held, Edges::outcome(static fn () => serialize($key))];
        }];
        yield 'key: serialised while it is held' => [['redis'], static function ($factory, $r, $store) {
            $store->save($key = new Key($r));

            return [str_starts_with(Edges::outcome(static fn () => serialize($key)), 'throws'), $store->delete($key)];
        }, '[true,null]', 'a hold belongs to its process: UnserializableKeyException, as of FlockStore'];

        yield 'store: delete and exists of a Key that was never saved' => [$all,
            static fn ($factory, $r, $store) => [$store->delete(new Key($r)), $store->exists(new Key($r))],
        ];
        yield 'store: putOffExpiration of a Key that was never saved' => [['redis'],
            static fn ($factory, $r, $store) => $store->putOffExpiration(new Key($r), 300),
        ];
        yield 'store: a conflict' => [$all,
            static fn ($factory, $r, $store) => [
                $store->save($key = new Key($r)), Edges::outcome(static fn () => $store->save(new Key($r))),
                $store->exists($key),
            ],
        ];

        yield 'readers: two, and none writes' => [['redis', 'flock'],
            static fn ($factory, $r) => [
                ($a = $factory->createLock($r))->acquireRead(), ($b = $factory->createLock($r))->acquireRead(),
                $factory->createLock($r)->acquire(), $a->isAcquired(), $b->isAcquired(),
            ],
        ];
        yield 'readers: none beside a writer' => [['redis', 'flock'],
            static fn ($factory, $r) => [
                ($a = $factory->createLock($r))->acquire(), $factory->createLock($r)->acquireRead(),
                $a->isAcquired(),
            ],
        ];
        yield 'readers: the only one becomes the writer' => [['redis', 'flock'],
            static fn ($factory, $r) => [
                ($a = $factory->createLock($r))->acquireRead(), $a->acquire(),
                $factory->createLock($r)->acquireRead(),
            ],
        ];
        yield 'readers: one of two stays a reader' => [['redis'],
            static fn ($factory, $r) => [
                ($a = $factory->createLock($r))->acquireRead(), ($b = $factory->createLock($r))->acquireRead(),
                $a->acquire(), $a->isAcquired(), $b->isAcquired(), $b->release(), $a->acquire(),
            ],
        ];
        yield 'readers: a writer becomes one' => [['redis', 'flock'],
            static fn ($factory, $r) => [
                ($a = $factory->createLock($r))->acquire(), $a->acquireRead(),
                ($b = $factory->createLock($r))->acquireRead(), $factory->createLock($r)->acquire(),
            ],
        ];
        yield 'readers: never released, ttl' => [['redis'],
            static fn ($factory, $r) => [$factory->createLock($r, 300, false)->acquireRead(), $factory->createLock($r)->acquire()],
            '[true,true]', 'a key is left closed to all or to none: a reader ends with its Key, as of FlockStore',
        ];
        yield 'readers: promoted after its ttl, no other came' => [['redis'], static function ($factory, $r) {
            $lock = self::acquired($factory, $r, 0.3, 'acquireRead');
            Edges::await(static fn () => !$lock->isAcquired());

            return [$lock->acquire(), $lock->isAcquired(), $factory->createLock($r)->acquireRead()];
        }];

        yield 'wait: a lock that is free' => [$all,
            static fn ($factory, $r) => [($a = $factory->createLock($r))->acquire(true), $a->isAcquired()],
        ];
        yield 'wait: for the end of a ttl that another request left' => [['redis'], static function ($factory, $r) {
            self::acquired($factory, $r, 0.3, 'acquire', false);

            return [($lock = $factory->createLock($r))->acquire(true), $lock->isAcquired()];
        }];
    }

    /** Values that an original only refuses by accident, or never answers. */
    public function testNoValueIsAnErrorOfTheLibrary(): void
    {
        $store = new LockshmStore(Segment::name());
        foreach ([\NAN, \INF, -\INF, 1e300, 1e-300, 1e-9, 0.0001, 0.0009, 315360000.0, 315360001.0, \PHP_INT_MAX, \PHP_INT_MIN] as $ttl) {
            foreach (['acquire', 'acquireRead'] as $acquire) {
                foreach ([false, true] as $blocking) {
                    $lock = (new LockFactory($store))->createLock('edge', $ttl);
                    $result = Edges::outcome(static fn () => [$lock->$acquire($blocking), $lock->refresh($ttl), $lock->release()]);
                    str_starts_with($result, 'throws ') && $this->assertTrue(is_a(substr($result, 7), ExceptionInterface::class, true), "$ttl: $result");
                    unset($lock);
                    $this->assertFalse(Segment::open()->isLocked('edge'), "after $ttl");
                }
            }
        }
    }

    /** @dataProvider wrongStores */
    public function testAWrongStoreIsNamed(mixed ...$arguments): void
    {
        $this->expectException(ExceptionInterface::class);
        $this->expectExceptionMessage(isset($arguments[1]) ? 'wait: ' : "segment \"$arguments[0]\":");
        new LockshmStore(...$arguments);
    }

    public static function wrongStores(): array
    {
        return [[''], ['a b'], ["a\0b"], ['.a'], [str_repeat('a', 201)], ['../a'], ['a', -1.0], ['a', -\INF], ['a', \NAN]];
    }

    /** @dataProvider waits */
    public function testWaitsOfAnyLength(?float $wait): void
    {
        $this->assertTrue((new LockFactory(new LockshmStore(Segment::name(), $wait)))->createLock('waits')->acquire(true));
    }

    public static function waits(): array
    {
        return [[null], [0.0], [-0.0], [1e-300], [1e12], [1e300], [\INF]];
    }

    /** @return LockInterface acquired, and its ttl not over: tried again where the machine stood still for longer */
    private static function acquired(LockFactory $factory, string $resource, float $ttl, string $acquire = 'acquire', bool $autoRelease = true): LockInterface
    {
        for ($i = 0; ; ++$i) {
            $lock = $factory->createLock($resource, $ttl, $autoRelease);
            try {
                if ($lock->$acquire()) {
                    return $lock;
                }
            } catch (LockExpiredException $late) {
                if (10 === $i) {
                    throw $late;
                }
            }
        }
    }

    private function outcome(PersistingStoreInterface $store, \Closure $call): string
    {
        $resource = uniqid('edge-', true);

        return str_replace($resource, 'NAME', Edges::outcome(static fn () => $call(new LockFactory($store), $resource, $store)));
    }

    private static function original(string $name): ?PersistingStoreInterface
    {
        $socket = getenv('REDIS_SOCKET');
        if ('redis' === $name && (!\extension_loaded('redis') || !$socket)) {
            return null;
        }
        if ('semaphore' === $name && !SemaphoreStore::isSupported()) {
            return null;
        }
        if ('redis' === $name) {
            $redis = new \Redis();
            $redis->connect($socket);
        }

        return match ($name) {
            'redis' => new RedisStore($redis),
            'flock' => new FlockStore(self::folder()),
            'semaphore' => new SemaphoreStore(),
        };
    }
}
