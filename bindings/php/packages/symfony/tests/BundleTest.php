<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\Tests;

use Lockshm\Symfony\LockshmBundle;
use Lockshm\Symfony\LockshmStore;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;
use Symfony\Bundle\FrameworkBundle\DependencyInjection\FrameworkExtension;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\Lock\LockFactory;

/** The container of an application with framework.lock. */
final class BundleTest extends TestCase
{
    protected function setUp(): void
    {
        $debian = 'Symfony/Bundle/FrameworkBundle/autoload.php';
        if (!class_exists(FrameworkExtension::class) && stream_resolve_include_path($debian)) {
            require_once $debian;
        }
        if (!class_exists(FrameworkExtension::class)) {
            $this->markTestSkipped('symfony/framework-bundle is not installed (Debian: php-symfony-framework-bundle)');
        }
    }

    public function testFrameworkLockHasTheDsn(): void
    {
        $container = $this->container(['lock' => 'lockshm://'.Segment::name()], []);
        $this->assertLocksIn(Segment::name(), $container->get('test.factory'));
    }

    public function testTheDsnMayComeFromTheEnvironment(): void
    {
        $_ENV['LOCK_DSN'] = 'lockshm://'.Segment::name();
        $container = $this->container(['lock' => '%env(LOCK_DSN)%'], []);
        $this->assertLocksIn(Segment::name(), $container->get('test.factory'));
    }

    public function testTheServicesAreOfTheConfiguration(): void
    {
        $container = $this->container([], ['segment' => Segment::name('service'), 'wait' => 5]);
        $this->assertInstanceOf(LockshmStore::class, $container->get('lockshm.store'));
        $this->assertLocksIn(Segment::name('service'), $container->get('lockshm.factory'));
    }

    private function assertLocksIn(string $segment, LockFactory $factory): void
    {
        $lock = $factory->createLock('bundle');
        $this->assertTrue($lock->acquire());
        $this->assertTrue(\Lockshm\Locks::open($segment)->isLocked('bundle'));
    }

    private function container(array $framework, array $lockshm): ContainerBuilder
    {
        $container = new ContainerBuilder();
        foreach (['debug' => false, 'environment' => 'test', 'project_dir' => __DIR__, 'cache_dir' => __DIR__,
            'build_dir' => __DIR__, 'container_class' => 'Container', 'charset' => 'UTF-8', 'secret' => 's',
            'bundles' => [], 'bundles_metadata' => [], 'runtime_environment' => 'test', 'logs_dir' => __DIR__] as $name => $value) {
            $container->setParameter('kernel.'.$name, $value);
        }
        $bundle = new LockshmBundle();
        $bundle->build($container);
        (new FrameworkExtension())->load([$framework + ['secret' => 's', 'test' => false]], $container);
        $bundle->getContainerExtension()->load([$lockshm], $container);
        if (isset($framework['lock'])) {
            $container->setAlias('test.factory', 'lock.factory')->setPublic(true);
        }
        $container->compile(true);

        return $container;
    }
}
