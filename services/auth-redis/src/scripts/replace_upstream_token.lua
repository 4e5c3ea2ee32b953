local session, provider, version, written, record = A[1], A[2], tonumber(A[3]), A[4], A[5]
local row, there = read(session, provider)
if not row or there ~= version then return { false } end
return { store(session, provider, written, record) }
