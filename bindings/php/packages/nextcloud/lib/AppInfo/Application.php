<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace OCA\Lockshm\AppInfo;

use Lockshm\Nextcloud\LockingProvider;
use OCP\AppFramework\App;
use OCP\AppFramework\Bootstrap\IBootContext;
use OCP\AppFramework\Bootstrap\IBootstrap;
use OCP\AppFramework\Bootstrap\IRegistrationContext;
use OCP\IConfig;
use OCP\Lock\ILockingProvider;
use Psr\Container\ContainerInterface;

require_once __DIR__.'/../../src/LockingProvider.php';

/**
 * Puts our ILockingProvider in the place of Nextcloud's, unless 'filelocking.enabled' => false.
 *
 * In config.php: 'lockshm.segment' (a name of this instance), 'lockshm.wait' (seconds to wait for a lock that is not
 * free; 0: refused at once, as Nextcloud does), and Nextcloud's own 'filelocking.ttl' (3600).
 */
final class Application extends App implements IBootstrap
{
    public function __construct(array $urlParams = [])
    {
        parent::__construct('lockshm', $urlParams);
        // In the constructor, before files are locked: there is no other door for a provider.
        $config = \OC::$server->get(IConfig::class);
        if ($config->getSystemValueBool('filelocking.enabled', true)) {
            \OC::$server->registerService(
                ILockingProvider::class,
                static fn (ContainerInterface $server): LockingProvider => self::provider($server->get(IConfig::class))
            );
        }
    }

    public function register(IRegistrationContext $context): void
    {
    }

    public function boot(IBootContext $context): void
    {
    }

    private static function provider(IConfig $config): LockingProvider
    {
        if (!\extension_loaded('lockshm')) {
            throw new \RuntimeException(
                'The app lockshm needs the PHP extension lockshm: load it, or disable the app (occ app:disable lockshm).'
            );
        }

        return new LockingProvider(
            $config->getSystemValueString('lockshm.segment', 'nextcloud-'.$config->getSystemValueString('instanceid')),
            (float) $config->getSystemValueInt('filelocking.ttl', 3600),
            (float) $config->getSystemValue('lockshm.wait', 0)
        );
    }
}
