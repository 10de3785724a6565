import time
from test_keystone import *
async def test_x(world):
    t=time.monotonic()
    def say(w): print(f"{time.monotonic()-t:.2f} {w}")
    async with world.operator("keystone") as operator:
        say("up")
        await infrastructure(world)
        await world.create(ours.KEYSTONE, "keystone", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        say("granted")
        await world.until_condition(ours.KEYSTONE, "keystone", "ConfigReady"); say("config")
        await world.until_condition(ours.KEYSTONE, "keystone", "BootstrapReady"); say("boot")
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady"); say("depl")
        await operator.settle(); say("settled")
    say("down")
