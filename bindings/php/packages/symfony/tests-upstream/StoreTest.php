<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Symfony\Component\Lock\Tests\Store;

use Lockshm\Symfony\LockshmStore;
use Lockshm\Testing\Segment;
use Symfony\Component\Lock\PersistingStoreInterface;

/** Symfony's own tests of a store, of the copy in SYMFONY_LOCK_DIR. */
final class StoreTest extends AbstractStoreTestCase
{
    use BlockingStoreTestTrait;
    use ExpiringStoreTestTrait;
    use SharedLockStoreTestTrait;
    use UnserializableTestTrait;

    public function getStore(): PersistingStoreInterface
    {
        return new LockshmStore(Segment::name());
    }

    protected function getClockDelay(): int
    {
        return 250000;
    }
}
