// SPDX-License-Identifier: MIT
//
// foreign-redlock.js SOCKET KEY - node-redlock with ioredis, commanded line by line; see redis-support/foreign.h
'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock');

const client = new Redis({ path: process.argv[2] });
const once = new Redlock([client], { retryCount: 0 });
const often = new Redlock([client], { retryCount: 2000, retryDelay: 10, retryJitter: 0 });
let lock = null;

// Errors that are news, such as those of its own clean-up, are not ours.
once.on('clientError', () => {});
often.on('clientError', () => {});

async function obey(word, ms) {
	if (word === 'lock' || word === 'wait')
		lock = await (word === 'lock' ? once : often).lock(process.argv[3], Number(ms));
	else if (word === 'unlock')
		await lock.unlock();
	else if (word === 'extend')
		lock = await lock.extend(Number(ms));
}

let queue = Promise.resolve();
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
	const [word, ms] = line.split(' ');
	queue = queue.then(() => obey(word, ms)).then(() => console.log('yes'), () => console.log('no'));
}).on('close', () => process.exit(0));
