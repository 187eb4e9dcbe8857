<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\Tests;

use Lockshm\Symfony\LockshmStore;
use Lockshm\Symfony\StoreFactory;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Store\FlockStore;

final class StoreFactoryTest extends TestCase
{
    public function testADsnNamesTheSegment(): void
    {
        $store = StoreFactory::createStore('lockshm://'.Segment::name('dsn'));
        $this->assertInstanceOf(LockshmStore::class, $store);
        $this->assertSame(Segment::open('dsn')->name(), $store->locks()->name());
    }

    public function testADsnHasTheMaximumWait(): void
    {
        $holder = \Lockshm\Testing\Child::run(function ($test): void {
            $hold = Segment::open()->exclusive('key');
            $test->send('held');
            $test->receive('end');
        });
        $holder->receive('held');
        $store = StoreFactory::createStore('lockshm://'.Segment::name().'?wait=0.05');
        try {
            $store->waitAndSave(new Key('key'));
            $this->fail('Two holds of one key.');
        } catch (LockConflictedException $timeout) {
            $this->assertStringContainsString('key', $timeout->getMessage());
        }
        $holder->kill();
    }

    public function testOtherDsnsAreSymfonys(): void
    {
        $this->assertInstanceOf(FlockStore::class, StoreFactory::createStore('flock'));
    }

    public function testAStoreIsReturnedAsItIs(): void
    {
        $store = new LockshmStore(Segment::name());
        $this->assertSame($store, StoreFactory::createStore($store));
    }

    /** @dataProvider wrongDsns */
    public function testAWrongDsnIsNamed(string $dsn): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage($dsn);
        StoreFactory::createStore($dsn);
    }

    public static function wrongDsns(): array
    {
        return [
            ['lockshm://shop?ttl=5'],
            ['lockshm://shop?wait=long'],
            ['lockshm://shop?wait=-1'],
            ['lockshm://shop/second/third'],
        ];
    }
}
