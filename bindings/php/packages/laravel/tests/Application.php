<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\Tests;

use Illuminate\Cache\CacheManager;
use Illuminate\Config\Repository as Config;
use Illuminate\Container\Container;
use Illuminate\Contracts\Cache\Factory;
use Illuminate\Contracts\Cache\Repository;
use Illuminate\Filesystem\Filesystem;
use Lockshm\Laravel\LockshmServiceProvider;
use Lockshm\Testing\Segment;

/** As much of a Laravel application as its cache needs, with the service provider. */
final class Application extends Container
{
    public static function start(array $stores = [], ?string $segment = null): self
    {
        $app = new self();
        Container::setInstance($app);
        $app->instance('files', new Filesystem());
        $app->instance('config', new Config(['cache' => [
            'default' => 'lockshm',
            'prefix' => 'app_',
            'stores' => $stores + [
                'lockshm' => ['driver' => 'lockshm', 'data' => 'array', 'segment' => $segment ?? Segment::name()],
                'array' => ['driver' => 'array'],
            ],
        ]]));
        $app->singleton('cache', static fn ($app) => new CacheManager($app));
        $app->alias('cache', Factory::class);
        $app->bind(Repository::class, static fn ($app) => $app['cache']->store());
        (new LockshmServiceProvider($app))->register();

        return $app;
    }

    public function store(?string $name = null): \Illuminate\Cache\Repository
    {
        return $this['cache']->store($name);
    }
}
