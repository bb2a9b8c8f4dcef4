#!lua flags=allow-oom
-- Forgets an offer of pages (offer_pages.lua) that the other shard has taken.
--
-- ARGV  2 number of the offer
-- Reply 1 if it stood, 0 if not
--include _crawl.lua
local standing = redis.call('HGET', META, 'offer')
if not standing or cjson.decode(standing)[1] ~= tonumber(ARGV[2]) then return 0 end
return redis.call('HDEL', META, 'offer')
