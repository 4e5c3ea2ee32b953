return { take(A[1]) }
