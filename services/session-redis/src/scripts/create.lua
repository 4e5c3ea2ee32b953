local reason = use(false)
if reason ~= 'ended' then return { reason or 'ok' } end
-- Tells a replica until when all sessions of the owner have ended, which it may have missed.
local all = call('ZSCORE', P .. 'owner:' .. owner, '*')
return { 'ok', all and tonumber(all) >= tonumber(issued) and all or '0' }
