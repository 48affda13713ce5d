// serve.js DIR: HTTP/2 at h2.test (203.0.113.40): over TLS on 443, with HTTP/1.1 for who wants it, and in the clear on 80 and
// 8081. Each answer has the version and the name that was asked for. `node-up` is written when all listen.
'use strict';
const fs = require('fs');
const http2 = require('http2');
const dir = process.argv[2];
const here = '203.0.113.40';

function answer(request, response) {
	const body = `http/${request.httpVersion} ${request.authority || request.headers.host}\n`;
	response.writeHead(200, {'content-type': 'text/plain'});
	response.end(body);
}

let left = 3;
function up() {
	if (--left === 0)
		fs.writeFileSync(`${dir}/node-up`, '');
}

const tls = {key: fs.readFileSync(`${dir}/server.key`), cert: fs.readFileSync(`${dir}/server.pem`), allowHTTP1: true};
http2.createSecureServer(tls, answer).listen(443, here, up);
http2.createServer(answer).listen(80, here, up);
http2.createServer(answer).listen(8081, here, up);
