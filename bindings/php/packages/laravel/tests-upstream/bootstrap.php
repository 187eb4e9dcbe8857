<?php
// SPDX-License-Identifier: MIT
// Laravel's own tests of locks, of the checkout in LARAVEL_DIR, with the stores "file", "redis" and "memcached" being ours.

declare(strict_types=1);

use function Lockshm\Testing\load;

require_once __DIR__.'/../tests/bootstrap.php';
load('Orchestra\\Testbench\\', __DIR__.'/stubs');
load('Illuminate\\Tests\\', getenv('LARAVEL_DIR').'/tests');
