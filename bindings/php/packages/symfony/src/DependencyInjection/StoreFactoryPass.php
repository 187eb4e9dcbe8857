<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\DependencyInjection;

use Lockshm\Symfony\StoreFactory;
use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\Lock\Store\StoreFactory as SymfonyStoreFactory;

/**
 * Lets the stores of framework.lock be made by a factory that has the DSN lockshm://, also when it comes from a variable
 * of the environment: Symfony's own factory is a closed list.
 */
final class StoreFactoryPass implements CompilerPassInterface
{
    public function process(ContainerBuilder $container): void
    {
        foreach ($container->getDefinitions() as $definition) {
            if ([SymfonyStoreFactory::class, 'createStore'] === $definition->getFactory()) {
                $definition->setFactory([StoreFactory::class, 'createStore']);
            }
        }
    }
}
