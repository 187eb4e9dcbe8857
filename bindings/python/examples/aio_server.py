# SPDX-License-Identifier: MIT
"""An asyncio server that serves one request for an account at a time, whichever of its processes gets it.

    python3 aio_server.py /run/accounts.sock       any number of times, with a socket each

Request: a line with the name of an account.  Reply: a line with its new balance, or "error: " and the reason.
A client that goes away while its request waits leaves no wait behind: its task is cancelled.
"""

import asyncio
import os
import sys

import lockshm

locks = lockshm.open(os.environ.get("LOCKS", "shop"))


async def deposit(account):
    """Stands for the work: what two processes must not do to one file at a time."""
    try:
        with open(f"{account}.balance", encoding="ascii") as file:
            balance = int(file.read())
    except FileNotFoundError:
        balance = 0
    await asyncio.sleep(0)  # other tasks run here
    with open(f"{account}.balance", "w", encoding="ascii") as file:
        file.write(str(balance + 1))
    return balance + 1


async def answer(account):
    if not account.isidentifier():
        return "error: not the name of an account"
    try:
        async with locks.exclusive(f"account:{account}", timeout=60):
            return str(await deposit(account))
    except lockshm.Timeout as error:
        return f"error: {error}"


async def serve_client(reader, writer):
    """Reads on while a request waits, so that the end of the connection is seen at once."""
    work = None
    try:
        line = await reader.readline()
        while line:
            ended = asyncio.ensure_future(reader.readline())
            work = asyncio.ensure_future(answer(line.decode().strip()))
            await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not ended.result():
                return
            writer.write(f"{await work}\n".encode())
            line = await ended
    finally:
        if work:
            work.cancel()
        writer.close()


async def main(path):
    server = await asyncio.start_unix_server(serve_client, path)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
