<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\Tests;

use Illuminate\Cache\ArrayStore;
use Illuminate\Cache\FileStore;
use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Filesystem\Filesystem;
use Illuminate\Redis\RedisManager;
use InvalidArgumentException;
use Lockshm\Laravel\LockshmStore;
use Lockshm\Testing\Edges;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;

/**
 * Edge values, each called on locks of Laravel's stores and on ours.  Where ours differs on purpose the row has what it does,
 * and why.
 */
final class EdgesTest extends TestCase
{
    public static function tearDownAfterClass(): void
    {
        (new Filesystem())->deleteDirectory(self::folder());
    }

    /**
     * @param list<string> $originals
     * @param \Closure     $call      gets a store, and the name of a lock
     *
     * @dataProvider rows
     */
    public function testAsTheOriginal(array $originals, \Closure $call, ?string $ours = null, string $reason = ''): void
    {
        $result = self::outcome(LockshmStore::over(new ArrayStore(), Segment::open()), $call);
        $compared = 0;
        foreach ($originals as $original) {
            if ($store = self::original($original)) {
                $expected = self::outcome($store, $call);
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
        $this->assertStringNotContainsString('Lockshm', $result);
        $this->assertStringNotContainsString('ValueError', $result);
        $compared || $this->markTestSkipped('none of '.implode(', ', $originals).' is here');
    }

    public static function rows(): iterable
    {
        $all = ['redis', 'array', 'file'];
        $pair = static fn ($store, $name, $seconds, $owner = null) => [
            ($lock = $store->lock($name, $seconds, $owner))->get(), $store->lock($name, $seconds)->get(), $lock->release(),
            $store->lock($name, $seconds)->get(), $store->lock($name)->forceRelease(),
        ];
        $names = [
            'empty' => '',
            'a null byte' => "a\0b",
            'of 700 bytes' => str_repeat('n', 700),
            'of 100000 bytes' => str_repeat('n', 100000),
            'of bytes that are no UTF-8' => "\xff\xfe",
            'a number' => 4711,
            'a fraction' => 1.5,
            'true' => true,
            'null' => null,
        ];
        foreach ($names as $what => $name) {
            yield "name: $what" => [['redis', 'file'], static fn ($store) => $pair($store, $name, 300)];
        }
        foreach (['0' => 0, '300' => 300, "'300'" => '300', '1e9' => 1e9] as $what => $seconds) {
            yield "seconds: $what" => [['redis', 'file'], static fn ($store, $name) => $pair($store, $name, $seconds)];
        }
        $refused = json_encode('throws '.InvalidArgumentException::class);
        foreach (['-1' => -1, 'null' => null, 'false' => false, 'NAN' => \NAN, '-INF' => -\INF] as $what => $seconds) {
            yield "seconds: $what" => [['redis'],
                static fn ($store, $name) => Edges::outcome(static fn () => $pair($store, $name, $seconds)),
                $refused, 'RedisStore keeps it for ever, ArrayStore for no time: it is said at once',
            ];
        }
        yield 'seconds: a word' => [['redis'],
            static fn ($store, $name) => Edges::outcome(static fn () => $pair($store, $name, 'long')),
            $refused, 'RedisStore refuses each lock of it in silence: it is said at once',
        ];
        yield 'seconds: more than ten years' => [['file'],
            static fn ($store, $name) => $pair($store, $name, 1_000_000_000),
        ];
        foreach (['a word' => 'me', 'empty' => '', 'long' => str_repeat('o', 100000), 'a null byte' => "o\0o", 'true' => true, '1.5' => 1.5] as $what => $owner) {
            yield "owner: $what" => [['redis', 'array'], static fn ($store, $name) => $pair($store, $name, 300, $owner)];
            yield "owner: $what, as it was given" => [['array', 'file'], static fn ($store, $name) => $store->lock($name, 300, $owner)->owner()];
            yield "owner: $what, restored" => [['redis', 'array'], static fn ($store, $name) => [
                $store->lock($name, 300, $owner)->get(),
                $store->restoreLock($name, 'another')->release(),
                $store->restoreLock($name, $owner)->release(),
                $store->restoreLock($name, $owner)->release(),
            ]];
        }
        yield 'owner: a number' => [['redis'], static fn ($store, $name) => $pair($store, $name, 300, 5)];

        foreach (['0' => 0, '-1' => -1, '0.01' => 0.01, 'null' => null, 'false' => false, "'0'" => '0'] as $what => $wait) {
            yield "block: $what, busy" => [$all, static fn ($store, $name) => [
                $store->lock($name, 300)->get(), Edges::outcome(static fn () => $store->lock($name, 300)->block($wait)),
            ]];
            yield "block: $what, free" => [$all, static fn ($store, $name) => $store->lock($name, 300)->block($wait)];
        }
        foreach (['1e12' => 1e12, 'the largest integer' => \PHP_INT_MAX, 'INF' => \INF] as $what => $wait) {
            yield "block: $what, free" => [$all, static fn ($store, $name) => $store->lock($name, 300)->block($wait)];
            yield "block: $what, until the seconds of another lock object end" => [['array', 'redis'],
                static fn ($store, $name) => [$store->lock($name, 1)->get(), $store->lock($name, 300)->block($wait)],
            ];
        }
        yield 'block: for this process itself, without seconds' => [$all, static fn ($store, $name) => [
            $store->lock($name)->get(), Edges::outcome(static fn () => $store->lock($name, 300)->block(1)),
        ]];
        yield 'block: the pause between tries' => [$all, static fn ($store, $name) => [
            ($lock = $store->lock($name, 300))->betweenBlockedAttemptsSleepFor(0) === $lock, $lock->block(1),
        ]];
        foreach (['none' => null, 'a word' => 'no function of this name', 'an array' => []] as $what => $callback) {
            yield "callback: $what" => [$all, static fn ($store, $name) => [
                ($lock = $store->lock($name, 300))->block(1, $callback), $store->lock($name, 300)->get($callback), $lock->release(),
            ]];
        }
        foreach (['get' => [], 'block' => [1]] as $method => $arguments) {
            yield "callback: value of $method()" => [$all, static fn ($store, $name) => [
                $store->lock($name, 300)->$method(...[...$arguments, static fn () => 'value']), $store->lock($name, 300)->get(),
            ]];
            yield "callback: $method(), and it throws" => [$all, static fn ($store, $name) => [
                Edges::outcome(static fn () => $store->lock($name, 300)->$method(...[...$arguments, static fn () => throw new \DomainException()])),
                $store->lock($name, 300)->get(),
            ]];
        }
        yield 'callback: get() while it is busy' => [$all, static fn ($store, $name) => [
            $store->lock($name, 300)->get(), $store->lock($name, 300)->get(static fn () => 'value'),
        ]];

        yield 'release: never taken, twice, of another' => [['redis', 'file'], static fn ($store, $name) => [
            ($lock = $store->lock($name, 300))->release(), $lock->get(), $store->lock($name, 300)->release(), $lock->release(), $lock->release(),
        ]];
        yield 'forceRelease: never taken, of another, and then its release' => [['redis', 'file'], static fn ($store, $name) => [
            ($lock = $store->lock($name, 300))->forceRelease(), $lock->get(), $store->lock($name)->forceRelease(), $lock->release(),
            $store->lock($name, 300)->get(),
        ]];
        yield 'restoreLock: never taken' => [['redis', 'file'], static fn ($store, $name) => [
            ($lock = $store->restoreLock($name, 'me'))->release(), $lock->owner(), $lock->get(), $lock->release(),
        ]];
        yield 'an interval: never released' => [$all, static fn ($store, $name) => array_map(static fn () => $store->lock($name, 300)->get(), range(1, 4))];
        yield 'the same object: taken twice' => [$all, static fn ($store, $name) => [
            ($lock = $store->lock($name, 300))->get(), $lock->get(), $lock->release(), $lock->get(),
        ]];
        if (method_exists(\Illuminate\Cache\ArrayLock::class, 'refresh')) {
            yield from self::rowsOfRefresh();
        }
    }

    private static function rowsOfRefresh(): iterable
    {
        $all = ['redis', 'array', 'file'];
        foreach (['nothing' => [], 'null' => [null], '0' => [0], '300' => [300]] as $what => $arguments) {
            yield "refresh: $what" => [$all, static fn ($store, $name) => [
                ($lock = $store->lock($name, 300))->refresh(...$arguments), $lock->get(), $lock->refresh(...$arguments),
                $store->lock($name, 300)->get(), $store->restoreLock($name, 'another')->refresh(...$arguments), $lock->isLocked(),
                $lock->isOwnedByCurrentProcess(), $lock->release(), $lock->refresh(...$arguments),
            ]];
        }
        yield 'state: isLocked() and isOwnedBy()' => [$all, static fn ($store, $name) => [
            ($lock = $store->lock($name, 300, 'me'))->isLocked(), $lock->isOwnedBy(null), $lock->isOwnedByCurrentProcess(),
            $lock->get(), $lock->isLocked(), $lock->isOwnedBy('me'), $lock->isOwnedBy('another'),
            $store->restoreLock($name, 'me')->isOwnedByCurrentProcess(), $store->lock($name)->isOwnedByCurrentProcess(),
        ]];
    }

    /** Values that an original only refuses by accident, or never answers. */
    public function testNoValueIsAnErrorOfTheLibrary(): void
    {
        $store = LockshmStore::over(new ArrayStore(), Segment::open());
        $values = [\NAN, \INF, -\INF, 1e300, 1e-300, 0.0001, 0.0009, 1e12, 315360001, \PHP_INT_MAX, \PHP_INT_MIN, '5', ' 5', '1e3', 'x', '', [], new \stdClass()];
        $allowed = ['throws '.InvalidArgumentException::class, 'throws '.LockTimeoutException::class];
        foreach ($values as $value) {
            foreach (['get', 'block'] as $take) {
                foreach ([
                    static fn () => $store->lock('edge', $value),
                    static fn () => $store->lock('edge', 300),
                    static fn () => $store->lock('edge', 300, $value),
                ] as $make) {
                    $result = Edges::outcome(static fn () => [$lock = $make(), 'get' === $take ? $lock->get() : $lock->block($value), $lock->refresh($value), $lock->release()]);
                    str_starts_with($result, 'throws ') && $this->assertContains($result, $allowed, get_debug_type($value)." $take");
                    $store->lock('edge')->forceRelease();
                }
            }
        }
        $this->assertFalse(Segment::open()->isLocked('edge'));
    }

    /** @dataProvider wrongSegments */
    public function testAWrongSegmentOfTheConfigurationIsNamed(mixed $segment): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage("'segment'");
        Application::start(['wrong' => ['driver' => 'lockshm', 'data' => 'array', 'segment' => $segment]])->store('wrong');
    }

    public static function wrongSegments(): array
    {
        return [[''], ['a b'], ["a\0b"], ['../a'], [str_repeat('a', 201)], [5], [[]]];
    }

    private static function outcome(LockProvider $store, \Closure $call): string
    {
        $name = uniqid('edge-', true);

        return str_replace($name, 'NAME', Edges::outcome(static fn () => $call($store, $name)));
    }

    private static function folder(): string
    {
        return sys_get_temp_dir().'/'.Segment::name();
    }

    private static function original(string $name): ?LockProvider
    {
        $socket = getenv('REDIS_SOCKET');
        if ('redis' === $name && (!\extension_loaded('redis') || !$socket || !class_exists(RedisManager::class))) {
            return null;
        }

        return match ($name) {
            'array' => new ArrayStore(),
            'file' => new FileStore(new Filesystem(), self::folder()),
            'redis' => new RedisStore(new RedisManager(Application::start(), 'phpredis', [
                'default' => ['host' => $socket, 'port' => 0],
            ]), 'laravel:'),
        };
    }
}
