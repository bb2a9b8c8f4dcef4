-- Included where a caller must notice that another server answers than the one it learnt from:
-- one that was restarted, or that took over from a master and may lack its last writes.
local function server() return redis.call('INFO', 'server'):match('run_id:(%x+)') or '' end
