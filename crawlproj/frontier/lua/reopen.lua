#!lua flags=allow-oom
-- Opens this shard again if it has ended, because more has come. It is counted on the first shard,
-- before the others are opened, so that a worker that is about to end the crawl there, as it has
-- ended the others, finds that it must look again.
--
-- ARGV  2 1 on the first shard, where it is counted, 0 on others
-- Reply the state afterwards
--include _crawl.lua
if ARGV[2] == '1' then redis.call('HINCRBY', META, 'reopened', 1) end
if STATE ~= 'finished' then return STATE end
redis.call('HSET', META, 'state', 'running', 'ran_until_ms', NOW)  -- see _elapsed.lua
return 'running'
