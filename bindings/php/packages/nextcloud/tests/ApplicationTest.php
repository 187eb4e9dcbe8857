<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Nextcloud\Tests;

use Lockshm\Nextcloud\LockingProvider;
use Lockshm\Testing\Segment;
use OCA\Lockshm\AppInfo\Application;
use OCP\IConfig;
use OCP\Lock\ILockingProvider;
use PHPUnit\Framework\TestCase;
use Psr\Container\ContainerInterface;

/** The app, in a server that is made of stand-ins. */
final class ApplicationTest extends TestCase
{
    protected function setUp(): void
    {
        if (getenv('NEXTCLOUD_DIR')) {
            $this->markTestSkipped('the server of this test is made of stand-ins, without NEXTCLOUD_DIR');
        }
        require_once __DIR__.'/stubs/app.php';
    }

    public function testTheAppIsTheProviderOfTheServer(): void
    {
        $this->start(['lockshm.segment' => Segment::name('app'), 'lockshm.wait' => '0.5']);
        $provider = \OC::$server->get(ILockingProvider::class);
        $this->assertInstanceOf(LockingProvider::class, $provider);
        $provider->acquireLock('path', ILockingProvider::LOCK_EXCLUSIVE);
        [$holder] = Segment::open('app')->holders('path');
        $this->assertEqualsWithDelta(3600, $holder->expiresIn, 120);
    }

    public function testWithoutFileLockingThereIsNone(): void
    {
        $this->start(['filelocking.enabled' => false]);
        $this->assertFalse(\OC::$server->has(ILockingProvider::class));
    }

    private function start(array $config): void
    {
        \OC::$server = new class(new IConfig($config)) implements ContainerInterface {
            private array $services;

            public function __construct(IConfig $config)
            {
                $this->services = [IConfig::class => static fn () => $config];
            }

            public function registerService(string $name, \Closure $make): void
            {
                $this->services[$name] = $make;
            }

            public function get(string $id)
            {
                return $this->services[$id]($this);
            }

            public function has(string $id): bool
            {
                return isset($this->services[$id]);
            }
        };
        new Application();
    }
}
