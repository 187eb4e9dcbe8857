// SPDX-License-Identifier: MIT
//
// other-redlock.js SOCKET KEY MS HOLD-US THINK-US - node-redlock with ioredis; see bench-other.c.  Its pauses are those it has
// by default, 200 ms and up to 100 more; only that it does not give up after ten tries.
'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock');

const [socket, key] = process.argv.slice(2, 4);
const [ms, hold, think] = process.argv.slice(4, 7).map(Number);
const client = new Redis({ path: socket });
const redlock = new Redlock([client], { retryCount: -1 });
const waits = [];
const now = () => Number(process.hrtime.bigint()) / 1000;
const sleep = (us) => new Promise((resolve) => setTimeout(resolve, us / 1000));

redlock.on('clientError', () => {});

async function work() {
	const end = now() + ms * 1000;
	for (;;) {
		const asked = now();
		const lock = await redlock.lock(key, 30000);
		const got = now();
		await sleep(hold);
		await lock.unlock();
		if (got >= end)
			break;
		waits.push((got - asked).toFixed(1));
		await sleep(think);
	}
	if (waits.length)
		console.log(waits.join('\n'));
	client.disconnect();
}

client.ping().then(() => {
	console.log('ready');
	process.stdin.once('data', () => {
		process.stdin.destroy();
		work();
	});
});
