<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony;

use Lockshm\Symfony\DependencyInjection\LockshmExtension;
use Lockshm\Symfony\DependencyInjection\StoreFactoryPass;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Extension\ExtensionInterface;
use Symfony\Component\HttpKernel\Bundle\Bundle;

/**
 * Gives a Symfony application the service "lockshm.store", and framework.lock the DSN lockshm://SEGMENT?wait=SECONDS.
 *
 *     # config/packages/lock.yaml
 *     framework:
 *         lock: 'lockshm://shop?wait=5'
 */
final class LockshmBundle extends Bundle
{
    public function build(ContainerBuilder $container): void
    {
        $container->addCompilerPass(new StoreFactoryPass());
    }

    public function getContainerExtension(): ?ExtensionInterface
    {
        return new LockshmExtension();
    }
}
