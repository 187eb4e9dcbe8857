<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\TestsUpstream;

use Illuminate\Tests\Integration\Cache\FileCacheFunnelTest;

/** Laravel's own tests of funnel() over a store's locks. */
final class FunnelTest extends FileCacheFunnelTest
{
}
