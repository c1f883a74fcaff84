BEGIN TRANSACTION;
CREATE TABLE dead_letters (
	id INTEGER NOT NULL, 
	subscription TEXT NOT NULL, 
	broker TEXT NOT NULL, 
	topic TEXT NOT NULL, 
	partition INTEGER NOT NULL, 
	position TEXT NOT NULL, 
	"offset" BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	time_ms BIGINT NOT NULL, 
	"key" BLOB, 
	headers BLOB NOT NULL, 
	body BLOB, 
	content_type TEXT, 
	cause TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	status INTEGER, 
	at_ms BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (subscription, broker, topic, partition, position)
);
INSERT INTO "dead_letters" VALUES(1,'billing','main','orders',3,'7',7,5,1700000000007,X'00FF206B6579',X'9492A563655F6964C4013192A563655F6964C405616761696E92A4676F6E65C092A5656D707479C400',X'00626F6479FF','application/x-thing','status-415','no such format é',2,415,1700000000130);
INSERT INTO "dead_letters" VALUES(2,'billing','main','orders',3,'8',8,5,1700000000008,NULL,X'9492A563655F6964C4013192A563655F6964C405616761696E92A4676F6E65C092A5656D707479C400',NULL,NULL,'status-415','no such format é',2,NULL,1700000000131);
INSERT INTO "dead_letters" VALUES(3,'audit','main','orders',3,'9',9,5,1700000000009,X'',X'9192C403FFFE62C4036F6464',X'00626F6479FF',NULL,'status-415','no such format é',2,415,1700000000132);
CREATE TABLE disabled_subscriptions (
	subscription TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	since TEXT DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	PRIMARY KEY (subscription)
);
INSERT INTO "disabled_subscriptions" VALUES('billing','status-410','2026-11-21 08:30:11');
CREATE TABLE owners (
	subscription TEXT NOT NULL, 
	broker TEXT NOT NULL, 
	topic TEXT NOT NULL, 
	partition INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (subscription, broker, topic, partition)
);
INSERT INTO "owners" VALUES('billing','main','orders',3,6);
INSERT INTO "owners" VALUES('audit','main','orders',3,5);
CREATE TABLE skybridge_schema (
	version INTEGER NOT NULL
);
INSERT INTO "skybridge_schema" VALUES(2);
CREATE TABLE stream_offsets (
	broker TEXT NOT NULL, 
	"group" TEXT NOT NULL, 
	topic TEXT NOT NULL, 
	partition INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	"offset" BIGINT NOT NULL, 
	finished TEXT NOT NULL, 
	PRIMARY KEY (broker, "group", topic, partition)
);
INSERT INTO "stream_offsets" VALUES('rabbit','skybridge.shop.billing','orders',3,5,7,'f1:2-4');
CREATE INDEX ix_dead_letters_subscription ON dead_letters (subscription);
COMMIT;
