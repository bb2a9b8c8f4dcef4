#!lua flags=allow-oom
-- Adds pages that another shard has offered to this one's budget; the same offer only once.
--
-- ARGV  2 shard that offers, 3 number of its offer, 4 pages
-- Reply the page budget afterwards
--include _crawl.lua
local taken = 'took:' .. ARGV[2]
if tonumber(redis.call('HGET', META, taken) or 0) >= tonumber(ARGV[3]) then return PAGES end
redis.call('HSET', META, taken, ARGV[3])
return redis.call('HINCRBY', META, 'pages', ARGV[4])
