<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\DependencyInjection;

use Lockshm\Symfony\LockshmStore;
use Symfony\Component\Config\Definition\Builder\TreeBuilder;
use Symfony\Component\Config\Definition\ConfigurationInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Extension\Extension;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\DependencyInjection\Reference;

/**
 * Registers "lockshm.store" and "lockshm.factory" of the configuration
 *
 *     lockshm:
 *         segment: shop   # name of the segment; that of the setting lockshm.segment if left out
 *         wait: 5         # longest wait of a blocking acquire in seconds; no bound if left out
 *         global: true    # exclude other hosts, too; false if left out
 */
final class LockshmExtension extends Extension implements ConfigurationInterface
{
    public function load(array $configs, ContainerBuilder $container): void
    {
        $config = $this->processConfiguration($this, $configs);
        $container->register('lockshm.store', LockshmStore::class)
            ->setArguments([$config['segment'], $config['wait'], $config['global']])
            ->setPublic(true);
        $container->setAlias(LockshmStore::class, 'lockshm.store');
        $container->register('lockshm.factory', LockFactory::class)
            ->setArguments([new Reference('lockshm.store')])
            ->setPublic(true);
        $container->registerAliasForArgument('lockshm.factory', LockFactory::class, 'lockshmLockFactory');
    }

    public function getConfigTreeBuilder(): TreeBuilder
    {
        $tree = new TreeBuilder('lockshm');
        $tree->getRootNode()->children()
            ->scalarNode('segment')->defaultNull()->end()
            ->floatNode('wait')->defaultNull()->end()
            ->booleanNode('global')->defaultFalse()->end();

        return $tree;
    }

    public function getConfiguration(array $config, ContainerBuilder $container): ConfigurationInterface
    {
        return $this;
    }
}
