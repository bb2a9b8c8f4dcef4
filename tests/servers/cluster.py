"""What can happen to a Redis Cluster: a master that dies, one that falls out of step, slots that
move. Done with the cluster's own commands, so that it does not matter which redis-cli there is."""

from __future__ import annotations

from redis.cluster import key_slot

from tests.servers.redis import RedisCluster, RedisServer, command, wait_for

KEYS_AT_ONCE = 10


def slot_of(key: str) -> int:
    return int(key_slot(key.encode()))


def holder(cluster: RedisCluster, key: str) -> RedisServer:
    """The master that holds a key."""
    slot = slot_of(key)
    for node in cluster.nodes:
        if node.is_running and any(first <= slot <= last for first, last in _slots(node)):
            return node
    raise LookupError(f"no master for {key}")


def replica_of(cluster: RedisCluster, master: RedisServer) -> RedisServer:
    with master.client() as client:
        port = int(client.info("replication")["slave0"]["port"])
    return next(node for node in cluster.nodes if node.port == port)


def is_master(node: RedisServer) -> bool:
    with node.client() as client:
        return bool(client.info("replication")["role"] == "master")


def cut_off(master: RedisServer, replica: RedisServer) -> None:
    """Let the replica miss what comes from now on, until it is resumed."""
    replica.pause()
    with master.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "REPLICA")


def depose(master: RedisServer, replica: RedisServer) -> None:
    """Make a replica master with what it has, while the master hangs and notices afterwards."""
    master.pause()
    replica.resume()
    command(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
    wait_for(lambda: is_master(replica), "the replica has taken over")
    master.resume()
    wait_for(lambda: not is_master(master), "the old master knows that it has been deposed")


def move_slot(cluster: RedisCluster, key: str, to: RedisServer) -> None:
    """Move the slot of a key to another master, key by key, as a live reshard does."""
    slot, source = slot_of(key), holder(cluster, key)
    source_id, to_id = _id(source), _id(to)
    command(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    command(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", to_id)
    with source.client() as client:
        while keys := client.execute_command("CLUSTER GETKEYSINSLOT", slot, KEYS_AT_ONCE):
            address = ("127.0.0.1", to.port, "", 0, 5000)
            client.execute_command("MIGRATE", *address, "KEYS", *keys)
    for node in (to, source):
        command(node, "CLUSTER", "SETSLOT", slot, "NODE", to_id)
    wait_for(lambda: holder(cluster, key) is to, "the slot has moved")


def _id(node: RedisServer) -> str:
    return str(command(node, "CLUSTER", "MYID").decode())


def _slots(node: RedisServer) -> list[tuple[int, int]]:
    """The ranges that a node says are its own."""
    with node.client() as client:
        listed = client.execute_command("CLUSTER NODES")
    mine = next(entry for entry in listed.values() if "myself" in entry["flags"])
    if "master" not in mine["flags"]:
        return []
    ranges = [slots for slots in mine["slots"] if len(slots) <= 2]
    return [(int(slots[0]), int(slots[-1])) for slots in ranges]
