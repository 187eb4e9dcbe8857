<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Nextcloud\TestsUpstream;

use Lockshm\Nextcloud\LockingProvider;
use Lockshm\Testing\Segment;

final class ProviderTest extends \Test\Lock\LockingProvider
{
    protected function getInstance()
    {
        return new LockingProvider(Segment::name());
    }

    protected function tearDown(): void
    {
        $this->instance->releaseAll();
    }
}
