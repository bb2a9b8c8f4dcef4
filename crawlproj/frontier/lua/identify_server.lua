#!lua flags=allow-oom
-- Tells which server keeps this shard.
--
-- Reply its run id, which changes with every restart and with every failover
--include _crawl.lua
--include _server.lua
return server()
