#!lua flags=allow-oom
-- Offers pages of this shard's budget that it has no URLs for to another shard. The offer is kept
-- here until the other has taken it, so that a crash in between neither loses nor doubles a page.
-- Offers are numbered, so that none is taken twice.
--
-- ARGV  2 shard to give to
--       3 pages that it lacks for its seeds; 0 if it wants them for links: then links that are
--         queued here keep theirs, as seeds do
-- Reply {number, shard, pages} of the offer that stands, or {} when there is nothing to give
--include _crawl.lua
local standing = redis.call('HGET', META, 'offer')
if standing then return cjson.decode(standing) end
local lacking = tonumber(ARGV[3])
local waiting = lacking > 0 and {'reserved'} or {'queued', 'delayed'}
local held = redis.call('HMGET', COUNTS, 'done', 'leased', 'revisits', unpack(waiting))
local spare = PAGES
for i = 1, 3 + #waiting do spare = spare - tonumber(held[i] or 0) end
if lacking > 0 then spare = math.min(spare, lacking) end
if spare <= 0 then return {} end
local offer = {redis.call('HINCRBY', META, 'offers', 1), tonumber(ARGV[2]), spare}
redis.call('HSET', META, 'pages', PAGES - spare, 'offer', cjson.encode(offer))
return offer
