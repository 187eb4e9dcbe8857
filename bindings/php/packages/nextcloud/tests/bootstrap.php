<?php
// SPDX-License-Identifier: MIT
// Loads Nextcloud's public interfaces from NEXTCLOUD_DIR, else the stand-ins.

declare(strict_types=1);

use function Lockshm\Testing\load;

error_reporting(E_ALL);
require_once __DIR__.'/../../testing/autoload.php';
$copy = getenv('NEXTCLOUD_DIR');
load('OCP\\', is_string($copy) && '' !== $copy ? $copy.'/lib/public' : __DIR__.'/stubs/OCP');
load('Lockshm\\Nextcloud\\Tests\\', __DIR__);
load('Lockshm\\Nextcloud\\', __DIR__.'/../src');
load('OCA\\Lockshm\\', __DIR__.'/../lib');
