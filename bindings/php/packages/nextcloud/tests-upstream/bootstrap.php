<?php
// SPDX-License-Identifier: MIT
// Nextcloud's own tests of a locking provider, of the checkout in NEXTCLOUD_DIR.

declare(strict_types=1);

namespace Test {
    /** As much of Nextcloud's as the tests of locking providers use. */
    abstract class TestCase extends \PHPUnit\Framework\TestCase
    {
    }
}

namespace {
    require_once __DIR__.'/../tests/bootstrap.php';
    Lockshm\Testing\load('Test\\', getenv('NEXTCLOUD_DIR').'/tests/lib');
}
